/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 OR MIT */
/* Places where packets of a path are lost. */
#ifndef CCP_PATH_LOSS_H
#define CCP_PATH_LOSS_H

enum path_loss {
	LOST_BY_CONGESTION,
	LOST_BY_LINK,
	LOST_UNKNOWN,
	PATH_LOSSES,
};

#endif
