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
// upstream.go and listener.go), then the blocks are held against each other
// (check.go) and, if all is well, against the habits of operators (lint.go).
// A new block is one more file with its table and its decode function, and one
// more entry in the table of the block it stands in.
//
// Units and ranges are those of package conf. A source file has at most
// [MaxFileBytes], a value that `locals` or file() brings in at most
// [MaxValueBytes], all `listen` lists together at most [MaxListenAddresses].
//
// Errors: every mistake in a file, missing files and bad encoding included, is
// a diagnostic of severity hcl.DiagError; a lint is hcl.DiagWarning. There are
// no Go errors and nothing panics on foreign input. A word that the language
// will have but that this version does not build is an error of its own kind
// ("not built yet"), never an unknown word and never ignored.
//
// Ownership: a Result is plain data and belongs to its caller; nothing here is
// shared between calls, so any goroutine may load.
//
// The package opens the file it is given and those that file() names. It opens
// no socket, resolves no name and asks the machine nothing: limits are handed
// in by the caller, and what the stream package does with a configuration is
// none of its business.
package hclfile
