//go:build race

package integration_test

// raceEnabled says that the tests, and so the binary too, are built with -race.
const raceEnabled = true
