/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 OR MIT */
/* State of clients and connections, and the table, for bindgen. */
#include "clients.h"
