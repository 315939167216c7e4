/* SPDX-License-Identifier: BSD-3-Clause */
/* parts.h - all of the adapter: these tests look into its parts. */
#ifndef TESTS_WORLD_PARTS_H
#define TESTS_WORLD_PARTS_H

#include <errno.h>

#include "emu/util/now.h"
#include "nic/host/api/life.h"
#include "nic/host/base/base.h"
#include "nic/host/base/lock.h"
#include "nic/host/base/op.h"
#include "nic/host/base/wire.h"
#include "nic/host/group/break.h"
#include "nic/host/group/broadcast.h"
#include "nic/host/group/group.h"
#include "nic/host/group/word.h"
#include "nic/host/peer/gone.h"
#include "nic/host/peer/meet.h"
#include "nic/host/progress/progress.h"
#include "nic/host/rx/message.h"
#include "nic/host/tx/answer.h"
#include "nic/host/tx/bulk.h"
#include "nic/host/tx/up.h"

#endif
