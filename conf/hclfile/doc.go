// Package hclfile reads weir's configuration file: HCL text in, a validated
// [conf.Config] and diagnostics for the operator out.
//
// [Load] reads a file and [Parse] reads bytes; both return a [Result], which
// holds the configuration (nil if there is any error), the diagnostics in the
// order of the file, and the source text that [Result.WriteDiagnostics] needs
// to underline the mistakes. [Options] carries everything that is not in the
// file: environment, a way to read files, and the [Limits] of the machine.
//
// A file goes through four steps. Text: size, encoding and depth are bounded
// before the HCL parser sees a byte (source.go). Syntax: each mistake is
// reported and its line blanked, so that the next one is found too (syntax.go).
// Words: every name in the file is held against the tables of the language,
// once, however often a dynamic block repeats it (words.go). Values: what is
// left is evaluated and decoded block by block (decoder.go; worker.go, log.go,
// admin.go, discovery.go, upstream.go, server.go, health.go, onstate.go,
// overload.go, listener.go, limits.go and udp.go), then the blocks are held
// against each other (check.go) and, if all is well, against the habits of
// operators (lint.go).
// A new block is one more file with its table and its decode function, and one
// more entry in the table of the block it stands in.
//
// A session template is a text with session variables in it, such as the key
// of a hash: "${local.site}-${remote_addr}", or a bare remote_addr. Variables
// stand between texts and are not computed with; what is around them is
// evaluated once, at load, like any expression. The walk over the words takes
// the text apart and checks that each variable is known by the time the
// template is needed; the decoder compiles the parts into a [conf.Template], in
// which texts that meet are one. Nothing is evaluated per session. Where no
// template is expected a session variable is an error, and within a template
// the name of a dynamic block's iterator goes before a variable's (template.go).
//
// A balancing method is an entry in the table of balance.go with its options;
// what a method makes of the servers at hand is lint_balance.go, and other
// programs' names for methods are foreign_balance.go.
//
// A kind of health check is an entry in the table of health.go with its
// options, of which tls and step are blocks (healthtls.go, steps.go). What checks
// do to servers is lint_health.go; other programs' words for all this are
// foreign_health.go. A profile sets defaults before the file is heard
// (profile.go): of its listener at once, of the listener's upstream when all
// listeners are known.
//
// What bounds the load stands in overload.go, for an upstream, and in limits.go,
// for a listener: an algorithm of an adaptive limit is an entry in a table with
// its options, and what the blocks make of one another is lint_overload.go. With
// before_first_byte a request that a server took before it died is done again by
// another one: it is for requests that may be done twice.
//
// [Effective] goes the other way: it writes a configuration as a file with every
// value, which reads to the same configuration (effective.go).
//
// A listener is one for TCP or one for UDP, and each refuses what only the
// other has: timeouts of connections, next_upstream, hedge, limits, priority and
// unix sockets there, the udp block here (udp.go). So do their upstreams: a queue,
// a breaker or a limit is for connections. The two have ports of their own, so
// that one address may have a listener of each, and an upstream may be used by
// both; lint_udp.go says what UDP makes of an upstream and of the machine's limits.
//
// Units and ranges are those of package conf. A source file has at most
// [MaxFileBytes], a value that `locals` or file() brings in at most
// [MaxValueBytes], all `listen` lists together at most [MaxListenAddresses]. The
// text of a session template has at most 4 KiB beside its variables.
//
// Errors: every mistake in a file, missing files and bad encoding included, is
// a diagnostic of severity hcl.DiagError; a lint is hcl.DiagWarning; what is
// only worth knowing is in [Result.Notes]. There are no Go errors and nothing
// panics on foreign input. A word that the language will have but that this
// version does not build is an error of its own kind ("not built yet"), never
// an unknown word and never ignored.
//
// Ownership: a Result is plain data and belongs to its caller; nothing here is
// shared between calls, so any goroutine may load.
//
// The package opens the file it is given, those that file() names, and to check
// them the certificates of health checks and the server_file. It opens no
// socket, resolves no name and asks the machine nothing: limits are handed in by
// the caller, and what the stream package does with a configuration is none of
// its business.
package hclfile
