// SPDX-License-Identifier: GPL-2.0

#include <linux/sched.h>
#include <linux/sched/mm.h>

#include "helpers.h"

void ext_virtio_device_ready(struct virtio_device *vdev)
{
	virtio_device_ready(vdev);
}

void ext_virtio_assign_bit(struct virtio_device *vdev, unsigned int bit, bool value)
{
	if (value)
		__virtio_set_bit(vdev, bit);
	else
		__virtio_clear_bit(vdev, bit);
}

bool ext_virtio_offers(struct virtio_device *vdev, unsigned int bit)
{
	u64 features[VIRTIO_FEATURES_U64S];

	virtio_get_features(vdev, features);
	return virtio_features_test_bit(features, bit);
}

void ext_virtio_synchronize_cbs(struct virtio_device *vdev)
{
	virtio_synchronize_cbs(vdev);
}

bool ext_virtio_is_little_endian(struct virtio_device *vdev)
{
	return virtio_is_little_endian(vdev);
}

/* Orders accesses even to a real device, which the barriers between CPUs need not do. */
void ext_mb(void)
{
	mb();
}

bool ext_is_idle_task(void)
{
	return is_idle_task(current);
}

unsigned int ext_memalloc_noio_save(void)
{
	return memalloc_noio_save();
}

void ext_memalloc_noio_restore(unsigned int flags)
{
	memalloc_noio_restore(flags);
}

bool ext_blk_mq_add_to_batch(struct request *rq, struct io_comp_batch *iob, bool is_error,
			     void (*complete)(struct io_comp_batch *iob))
{
	return blk_mq_add_to_batch(rq, iob, is_error, complete);
}

struct queue_limits ext_queue_limits_start_update(struct request_queue *q)
{
	return queue_limits_start_update(q);
}

/* Describes the request's data by its first segment; false if there is more than that. */
bool ext_sg_set_req_bvec(struct scatterlist *sg, struct request *rq)
{
	struct bio_vec bv = req_bvec(rq);

	if (bv.bv_len != blk_rq_payload_bytes(rq))
		return false;
	sg_set_page(sg, bv.bv_page, bv.bv_len, bv.bv_offset);
	sg_mark_end(sg);
	return true;
}
