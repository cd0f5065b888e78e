package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const output = `goos: linux
BenchmarkCalibration-2   	       3	 200000000 ns/op	       200.0 cpu-ms/op
BenchmarkCalibration-2   	       3	 100000000 ns/op	       100.0 cpu-ms/op
BenchmarkFirstTable-2   	       3	3473476229 ns/op	      3000 cpu-ms/op	       270.8 peak-MiB
BenchmarkDataPlane/Exec-2         	      40	1817240658 ns/op	        71.25 cpu-ms/op	        52.2 first-MiB	        52.9 peak-MiB	       268.3 write-to-table-ms/op
PASS
`

func TestGuard(t *testing.T) {
	path := filepath.Join(t.TempDir(), "recorded.txt")
	var out strings.Builder
	if err := run(strings.NewReader(output), &out, path, true); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want := header + "BenchmarkDataPlane/Exec cpu-ms/op 0.713\nBenchmarkDataPlane/Exec peak-MiB 52.9\n" +
		"BenchmarkFirstTable cpu-ms/op 30\nBenchmarkFirstTable peak-MiB 271\n"
	if string(text) != want {
		t.Errorf("recorded\n%swant\n%s", text, want)
	}
	for name, c := range map[string]struct {
		old, with string
		worse     bool
	}{
		"the same":                         {"", "", false},
		"a machine of half the speed":      {"100.0 cpu-ms/op\nBenchmarkFirst", "100.0 cpu-ms/op\nBenchmarkFirst", false},
		"more memory":                      {"52.9 peak-MiB", "70 peak-MiB", true},
		"a little more memory":             {"52.9 peak-MiB", "55 peak-MiB", false},
		"twice the time":                   {"3000 cpu-ms/op", "6000 cpu-ms/op", true},
		"twice the time on a slow machine": {"100.0 cpu-ms/op", "200.0 cpu-ms/op", false},
		"a benchmark that did not run":     {"BenchmarkFirstTable", "BenchmarkOther", true},
	} {
		err := run(strings.NewReader(strings.Replace(output, c.old, c.with, 1)), &out, path, false)
		if (err != nil) != c.worse {
			t.Errorf("%s: error %v, want one: %v", name, err, c.worse)
		}
	}
	if err := run(strings.NewReader(strings.ReplaceAll(output, "Calibration", "Other")), &out, path, false); err == nil {
		t.Error("a run without a calibration is no error")
	}
}
