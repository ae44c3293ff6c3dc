// SPDX-License-Identifier: GPL-2.0

#include "helpers.h"

void ext_virtio_device_ready(struct virtio_device *vdev)
{
	virtio_device_ready(vdev);
}

bool ext_virtio_is_little_endian(struct virtio_device *vdev)
{
	return virtio_is_little_endian(vdev);
}

bool ext_blk_mq_add_to_batch(struct request *rq, struct io_comp_batch *iob, bool is_error,
			     void (*complete)(struct io_comp_batch *iob))
{
	return blk_mq_add_to_batch(rq, iob, is_error, complete);
}
