// Package accesslog writes one line for each finished session without ever
// making a worker wait for a disk.
//
// Each worker has a [Ring]; at a session's end it puts a [Record] there, which
// copies some words and wakes the [Writer] if that sleeps. The writer's
// goroutine formats and writes. A ring that is full loses the record and
// counts it; the writer reports lost lines in the process's log.
//
// Units: a ring holds [RingRecords] records. Times are printed in seconds with
// milliseconds, counts of bytes as whole numbers; an absent value is "-" in
// text and null in JSON.
//
// Errors: [Open] returns one if the file can't be opened. A failing write
// loses its lines, which are counted, and is reported once a minute.
//
// Ownership: a Ring has one producer, its worker, and one consumer, the
// writer's goroutine. Writer's methods may be called by any goroutine. The
// writer closes the file it opened.
package accesslog
