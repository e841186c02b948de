/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 OR MIT */
/* What Rust sees: the state of clients and connections, and the table. */
#include "clients.h"
