// Package conf is weir's configuration as plain, validated values: what the
// rest of the program is built from, with no trace of the file format.
//
// [Config] holds one [Worker], [Log], [Admin] and [Resolver] section and lists
// of [Upstream] and [Listener]. An upstream has its servers, the [HealthCheck]s
// that judge them, and what becomes of sessions by the verdicts ([OnState],
// [OutlierDetection]), and what bounds the load on them ([Queue],
// [CircuitBreaker], [AdaptiveLimit]). A listener has [Limits] of its clients, and
// its [Profile] sets defaults for a protocol. A Config that came out of
// conf/hclfile has passed every check: names are unique, every listener's
// upstream exists, and all numbers are in range. A Config that was built by hand
// should start from [Default], [NewUpstream], [NewServer], [NewHealthCheck] and
// [NewListener], which fill in the documented defaults.
//
// Units and ranges: every timeout is a time.Duration of whole milliseconds,
// at least 1 ms and at most [MaxDuration], or [Off]. Server.FailTimeout is
// whole seconds, because nginx's failure window compares whole seconds.
// Weights are 1..[MaxWeight]; counts are never negative, but for the
// [NoResponses] of a UDP listener; 0 means "no limit" or "automatic" where the
// field says so. A [Rate] is events in a second, 0 for no limit, at most
// [MaxRate]; a [ByteRate] is bytes in a second, at most [MaxByteRate]; shares are
// 0..1.
//
// Errors: the Parse functions return an error whose text says what is wrong
// and what to write instead; they are fit to be shown to the operator beside
// the source line. Nothing here panics on foreign input.
//
// Ownership: all types are plain data. A *Config handed to the stream package
// is immutable from then on and may be read by any goroutine.
//
// It opens no file and no socket and resolves no name: that is left to
// conf/hclfile (files) and stream/upstream (names).
package conf
