package robustness

import "testing"

func TestRunsDoNotShareANetwork(t *testing.T) {
	claimed := make(map[[2]byte]bool)
	for range 500 { // of 50,000: by chance alone two would be the same
		w := &World{}
		if err := w.claimNet(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = w.claim.Close() })
		if claimed[w.net] {
			t.Fatalf("two runs have the network 127.%d.%d.0", w.net[0], w.net[1])
		}
		claimed[w.net] = true
	}
}
