// Package upgrade tests that two neighbouring versions work together: servers, relays, sidecars and the command line of the previous
// version with those of this one, in both directions, and each with the files that the other has left on disk. It has no code of its
// own.
//
// Two sets of tests do this. One runs the programs of both versions; those of the previous one are built from the commit in
// testdata/previous, which is the last release, or the first commit that promised compatibility while there is no release. The other
// one needs no history: it has files and HTTP exchanges that the first version left (testdata/first), and replays them. A clone
// without history runs the second alone, and says so.
package upgrade
