#!/bin/sh
# cargo with maturin's environment: with another one, pyo3 would be compiled again at every change between building and
# linting the extension.
root=$(cd "$(dirname "$0")/.." && pwd)
python=$root/.venv/bin/python
config=$(ls "$root"/native/target/maturin/pyo3-config-*-abi3.txt 2>/dev/null | head -n 1)
if [ -x "$python" ] && [ -n "$config" ]; then
	export PYO3_BUILD_EXTENSION_MODULE=1
	export PYO3_CONFIG_FILE="$config"
	export PYO3_PYTHON="$python"
	PYO3_ENVIRONMENT_SIGNATURE=$("$python" -c 'import struct, sys; print(
		f"{sys.implementation.name}-{sys.version_info[0]}.{sys.version_info[1]}-{8 * struct.calcsize(chr(80))}bit")')
	export PYO3_ENVIRONMENT_SIGNATURE
fi
cd "$root/native" && exec cargo "$@"
