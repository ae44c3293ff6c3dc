/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Shims for static inline functions and macros of the C API. Each does what the functions
 * behind its name do, and nothing else.
 */
#ifndef BINDINGS_EXT_HELPERS_H
#define BINDINGS_EXT_HELPERS_H

#include <linux/blk-mq.h>
#include <linux/virtio_config.h>

void ext_virtio_device_ready(struct virtio_device *vdev);
void ext_virtio_assign_bit(struct virtio_device *vdev, unsigned int bit, bool value);
bool ext_virtio_offers(struct virtio_device *vdev, unsigned int bit);
void ext_virtio_synchronize_cbs(struct virtio_device *vdev);
bool ext_virtio_is_little_endian(struct virtio_device *vdev);
void ext_mb(void);
bool ext_is_idle_task(void);
unsigned int ext_memalloc_noio_save(void);
void ext_memalloc_noio_restore(unsigned int flags);
bool ext_blk_mq_add_to_batch(struct request *rq, struct io_comp_batch *iob, bool is_error,
			     void (*complete)(struct io_comp_batch *iob));
struct queue_limits ext_queue_limits_start_update(struct request_queue *q);
bool ext_sg_set_req_bvec(struct scatterlist *sg, struct request *rq);

#endif /* BINDINGS_EXT_HELPERS_H */
