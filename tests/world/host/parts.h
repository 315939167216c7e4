/* SPDX-License-Identifier: BSD-3-Clause */
/* parts.h - all of the adapter: these tests look into its parts. */
#ifndef TESTS_WORLD_PARTS_H
#define TESTS_WORLD_PARTS_H

#include <errno.h>

#include "emu/now.h"
#include "nic/host/base.h"
#include "nic/host/group/break.h"
#include "nic/host/group/broadcast.h"
#include "nic/host/group/condition.h"
#include "nic/host/group/group.h"
#include "nic/host/life.h"
#include "nic/host/lock.h"
#include "nic/host/message/message.h"
#include "nic/host/op/op.h"
#include "nic/host/peer/gone.h"
#include "nic/host/peer/hello.h"
#include "nic/host/peer/leave.h"
#include "nic/host/peer/meet.h"
#include "nic/host/progress/step.h"
#include "nic/host/progress/thread.h"
#include "nic/host/progress/wait.h"
#include "nic/host/receive.h"
#include "nic/host/send/answer.h"
#include "nic/host/send/bulk.h"
#include "nic/host/send/up.h"
#include "nic/host/wire.h"

#endif
