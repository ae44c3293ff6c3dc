/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The tracepoints of the driver. A queue is named by the number of its virtio device
 * and its own.
 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM virtio_blk_rs

#if !defined(VIRTIO_BLK_RS_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define VIRTIO_BLK_RS_TRACE_H

#include <linux/tracepoint.h>

TRACE_EVENT(queue_interrupt,
	TP_PROTO(u32 device, u32 queue, u32 in_flight),
	TP_ARGS(device, queue, in_flight),
	TP_STRUCT__entry(
		__field(u32, device)
		__field(u32, queue)
		__field(u32, in_flight)
	),
	TP_fast_assign(
		__entry->device = device;
		__entry->queue = queue;
		__entry->in_flight = in_flight;
	),
	TP_printk("virtio%u queue=%u in_flight=%u",
		  __entry->device, __entry->queue, __entry->in_flight)
);

TRACE_EVENT(drain,
	TP_PROTO(u32 device, u32 queue, u32 drains, u32 completions, u32 left),
	TP_ARGS(device, queue, drains, completions, left),
	TP_STRUCT__entry(
		__field(u32, device)
		__field(u32, queue)
		__field(u32, drains)
		__field(u32, completions)
		__field(u32, left)
	),
	TP_fast_assign(
		__entry->device = device;
		__entry->queue = queue;
		__entry->drains = drains;
		__entry->completions = completions;
		__entry->left = left;
	),
	TP_printk("virtio%u queue=%u drains=%u completions=%u left=%u",
		  __entry->device, __entry->queue, __entry->drains,
		  __entry->completions, __entry->left)
);

/* `reqs` is 0 if the device signals the next completion, or none; `usecs` without a timer. */
TRACE_EVENT(rearm,
	TP_PROTO(u32 device, u32 queue, u32 reqs, u32 usecs),
	TP_ARGS(device, queue, reqs, usecs),
	TP_STRUCT__entry(
		__field(u32, device)
		__field(u32, queue)
		__field(u32, reqs)
		__field(u32, usecs)
	),
	TP_fast_assign(
		__entry->device = device;
		__entry->queue = queue;
		__entry->reqs = reqs;
		__entry->usecs = usecs;
	),
	TP_printk("virtio%u queue=%u reqs=%u usecs=%u",
		  __entry->device, __entry->queue, __entry->reqs, __entry->usecs)
);

TRACE_EVENT(coalesce_change,
	TP_PROTO(u32 device, u32 queue, u32 depth, u32 reqs, u32 usecs),
	TP_ARGS(device, queue, depth, reqs, usecs),
	TP_STRUCT__entry(
		__field(u32, device)
		__field(u32, queue)
		__field(u32, depth)
		__field(u32, reqs)
		__field(u32, usecs)
	),
	TP_fast_assign(
		__entry->device = device;
		__entry->queue = queue;
		__entry->depth = depth;
		__entry->reqs = reqs;
		__entry->usecs = usecs;
	),
	TP_printk("virtio%u queue=%u depth=%u reqs=%u usecs=%u",
		  __entry->device, __entry->queue, __entry->depth, __entry->reqs,
		  __entry->usecs)
);

TRACE_EVENT(kick,
	TP_PROTO(u32 device, u32 queue, u64 ns),
	TP_ARGS(device, queue, ns),
	TP_STRUCT__entry(
		__field(u32, device)
		__field(u32, queue)
		__field(u64, ns)
	),
	TP_fast_assign(
		__entry->device = device;
		__entry->queue = queue;
		__entry->ns = ns;
	),
	TP_printk("virtio%u queue=%u ns=%llu", __entry->device, __entry->queue, __entry->ns)
);

#endif /* VIRTIO_BLK_RS_TRACE_H */

/* This part must be outside protection. */
#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE events
#include <trace/define_trace.h>
