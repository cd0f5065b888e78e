package main

import (
	"strings"
	"testing"
)

// A process that dies within a test reports no end of that test: what it printed must be shown, since it is the only trace.
func TestOutputOfATestThatNeverEnded(t *testing.T) {
	var out strings.Builder
	c := &counter{out: &out, output: make(map[key][]string)}
	err := c.read(strings.NewReader(`
{"Action":"run","Package":"p","Test":"TestFine"}
{"Action":"output","Package":"p","Test":"TestFine","Output":"nothing to see\n"}
{"Action":"pass","Package":"p","Test":"TestFine"}
{"Action":"run","Package":"p","Test":"TestDies"}
{"Action":"output","Package":"p","Test":"TestDies","Output":"fatal error: all is lost\n"}
{"Action":"output","Package":"p","Output":"FAIL\tp\n"}
{"Action":"fail","Package":"p"}
{"Action":"run","Package":"q","Test":"TestFine"}
{"Action":"output","Package":"q","Test":"TestFine","Output":"of another package\n"}
`))
	if err != nil {
		t.Fatal(err)
	}
	if want := "fail p 0.0s\nFAIL\tp\nNOT ENDED p TestDies\nfatal error: all is lost\n"; !strings.HasSuffix(out.String(), want) {
		t.Errorf("printed\n%s\nwant at its end\n%s", out.String(), want)
	}
	if !c.broken || c.passed != 1 || c.failed != 0 {
		t.Errorf("broken %v, %d passed, %d failed; want true, 1, 0", c.broken, c.passed, c.failed)
	}
}

func TestCounts(t *testing.T) {
	var out strings.Builder
	c := &counter{out: &out, output: make(map[key][]string)}
	err := c.read(strings.NewReader(`{"Action":"pass","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestB","Output":"    p_test.go:1: wrong\n"}
{"Action":"fail","Package":"p","Test":"TestB"}
{"Action":"output","Package":"p","Test":"TestC","Output":"    p_test.go:2: no browser\n"}
{"Action":"skip","Package":"p","Test":"TestC"}
{"Action":"fail","Package":"p","Elapsed":1.5}
{"Action":"skip","Package":"without/tests"}
go: a line of the tool
`))
	if err != nil {
		t.Fatal(err)
	}
	want := "FAIL p TestB\n    p_test.go:1: wrong\nSKIP p TestC\n    p_test.go:2: no browser\nfail p 1.5s\ngo: a line of the tool\n"
	if out.String() != want {
		t.Errorf("printed\n%s\nwant\n%s", out.String(), want)
	}
	if c.passed != 1 || c.failed != 1 || c.skipped != 1 {
		t.Errorf("%d passed, %d failed, %d skipped", c.passed, c.failed, c.skipped)
	}
}
