// Package latency keeps distributions of durations from which decisions are
// made: those of adaptive limits and of hedged connects. Metrics have coarser
// histograms of their own.
//
// A [Window] collects samples until somebody takes them out, and then begins
// anew. A [Recent] holds the latest thousand or two for ever and tells their
// percentiles.
//
// Both count in buckets whose width grows with the value: each power of two is
// divided into 32 of equal width, the layout of HdrHistogram (Gil Tene,
// http://hdrhistogram.org). The answer is the middle of a bucket, at most 1.6 %
// from the true value.
//
// Units and ranges: durations from 1.024 µs (2^10 ns) to 68.7 s (2^36 ns); what
// lies outside counts as the nearest. Quantiles are 0..1, by nearest rank: of 100
// samples the 0.95 is the 95th in order. A Window takes 3.3 KiB, a Recent 10 KiB.
//
// Errors: there are none; a Recent says if it has too few samples to tell.
//
// Ownership: every method may be called by any goroutine at any time. There are no
// locks; Observe does two atomic additions and does not allocate. Zero values are
// ready for use and must not be copied after it.
//
// What follows from a latency is left to others.
package latency
