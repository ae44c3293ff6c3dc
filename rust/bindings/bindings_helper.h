/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What bindgen reads for the crate `bindings_ext`: the virtio core, the parts of the
 * block layer that need a C shim, and constants that hide behind casts.
 */
#ifndef BINDINGS_EXT_HELPER_H
#define BINDINGS_EXT_HELPER_H

#include <linux/blk-mq.h>
#include <linux/blkdev.h>
#include <linux/hdreg.h>
#include <linux/interrupt.h>
#include <linux/irq_poll.h>
#include <linux/virtio.h>
#include <linux/virtio_config.h>
#include <linux/virtio_ring.h>
#include <uapi/linux/virtio_blk.h>
#include <uapi/linux/virtio_ids.h>

#include "helpers.h"
#include "../trace/events.h"

/* Values of `blk_status_t` and the like are casts that bindgen cannot evaluate. */
const blk_status_t EXT_CONST_BLK_STS_OK = BLK_STS_OK;
const blk_status_t EXT_CONST_BLK_STS_NOTSUPP = BLK_STS_NOTSUPP;
const blk_status_t EXT_CONST_BLK_STS_IOERR = BLK_STS_IOERR;
const blk_status_t EXT_CONST_BLK_STS_RESOURCE = BLK_STS_RESOURCE;
const blk_status_t EXT_CONST_BLK_STS_ZONE_OPEN_RESOURCE = BLK_STS_ZONE_OPEN_RESOURCE;
const blk_status_t EXT_CONST_BLK_STS_ZONE_ACTIVE_RESOURCE = BLK_STS_ZONE_ACTIVE_RESOURCE;
const blk_features_t EXT_CONST_BLK_FEAT_ZONED = BLK_FEAT_ZONED;
const blk_features_t EXT_CONST_BLK_FEAT_WRITE_CACHE = BLK_FEAT_WRITE_CACHE;
const blk_features_t EXT_CONST_BLK_FEAT_ROTATIONAL = BLK_FEAT_ROTATIONAL;
const req_flags_t EXT_CONST_RQF_SPECIAL_PAYLOAD = RQF_SPECIAL_PAYLOAD;
const gfp_t EXT_CONST_GFP_ATOMIC = GFP_ATOMIC;
const blk_opf_t EXT_CONST_REQ_SYNC = REQ_SYNC;
const blk_opf_t EXT_CONST_REQ_IDLE = REQ_IDLE;
const blk_opf_t EXT_CONST_REQ_FUA = REQ_FUA;
const blk_opf_t EXT_CONST_REQ_PREFLUSH = REQ_PREFLUSH;
const blk_opf_t EXT_CONST_REQ_META = REQ_META;
const blk_opf_t EXT_CONST_REQ_PRIO = REQ_PRIO;
const blk_opf_t EXT_CONST_REQ_NOUNMAP = REQ_NOUNMAP;
const size_t EXT_CONST_SG_CHUNK_SIZE = SG_CHUNK_SIZE;
const u32 EXT_CONST_REQ_OP_MASK = REQ_OP_MASK;
const u32 EXT_CONST_BLK_MAX_BLOCK_SIZE = BLK_MAX_BLOCK_SIZE;

#endif /* BINDINGS_EXT_HELPER_H */
