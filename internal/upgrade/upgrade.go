// Package upgrade tests that two neighboring versions work together. It runs servers, relays, sidecars and the
// command line of the previous version with those of this version, in both directions, and each with the files that
// the other has left on disk. The package contains only tests.
//
// Two sets of tests do this. One runs the programs of both versions; it builds the previous programs from the commit
// in testdata/previous, which is the last release or, before any release, the first commit that promised
// compatibility. The other set needs no history: it replays files and HTTP exchanges that the first version left
// (testdata/first). A clone without history runs only the second set, and says so.
package upgrade
