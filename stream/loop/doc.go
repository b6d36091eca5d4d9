// Package loop is the event loop of one worker: an epoll set, a timer wheel, a
// mailbox and a slab, all for one thread.
//
// [Loop] waits for readiness and calls a [Handler], which is the worker. Each
// descriptor is registered with a [Token] that names what it belongs to: a
// kind, a slot, that slot's generation and a side. A [Slab] keeps the things
// that own slots; it refuses a token of an earlier generation, so an event
// that was queued before its descriptor was closed and reused is dropped and
// counted, never delivered to a stranger. A [Wheel] keeps one deadline for each
// slot. A [Mailbox] brings work from other goroutines.
//
// Units: the wheel counts whole milliseconds of the loop's clock; a deadline
// never fires early and at most one millisecond and one turn late. A slab holds
// at most [MaxSlots] things.
//
// Errors: only [New] returns one (epoll, eventfd or timerfd refused by the kernel). A
// failing epoll_wait afterwards is a bug and panics.
//
// Ownership: everything here belongs to the goroutine that calls Run or Turn,
// which must be locked to its thread for Run. The exceptions are
// [Mailbox.Post], which any goroutine may call, and Loop.Stats, whose fields
// are atomic. The loop closes its own epoll set, eventfd and timerfd and no other
// descriptor.
//
// Waiting and the Go scheduler are explained at sys.EpollWait; it was proven
// under garbage-collection stress in the tests here.
//
// What events mean is left to the handler: the loop knows no TCP, UDP or peer.
package loop
