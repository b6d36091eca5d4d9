// Package queue is a line of waiters: first come, first served within a priority,
// and low priorities before high ones.
//
// A [Queue] is a list for each priority. A waiter stands in it with its [Place],
// which it owns and uses again for ever. Who takes a place out of the line decides
// what that means; [Place.Wake] is how the waiter gets to know it.
//
// Units: priorities are 0, the most important, to conf.Priorities-1. Every
// operation takes constant time, but for [Queue.Return], and allocates nothing.
//
// Errors: there are none. A priority out of range, and a place that is pushed while
// it is in a queue, panic.
//
// Ownership: neither type is safe for concurrent use. The mutex of the queue's
// owner guards the queue and all places in it. The queue calls nothing, Wake
// included.
//
// Bounds on length and time, and what waiters wait for, are left to others.
package queue
