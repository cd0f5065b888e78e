package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// tiny runs the command on the module in testdata, and returns its exit status and output.
func tiny(t *testing.T, results string, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	t.Setenv("GOWORK", "off") // the module is not one of the workspace around it
	var out, errs bytes.Buffer
	args = append([]string{
		"-root", "testdata/tiny", "-packages", ".", "-with", "", "-n", "0", "-results", results, "-equivalent", "equivalent.txt",
	}, args...)
	status = run(t.Context(), args, &out, &errs)
	return status, out.String(), errs.String()
}

// outcomes returns the outcomes in a file of results, by change.
func outcomes(t *testing.T, path string) map[string]outcome {
	t.Helper()
	r, err := openResults(path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.file.Close()
	got := make(map[string]outcome)
	for id, one := range r.known {
		got[id] = one.Outcome
	}
	return got
}

func TestMutantsOfATinyModule(t *testing.T) {
	before, err := os.ReadFile("testdata/tiny/tiny.go")
	if err != nil {
		t.Fatal(err)
	}
	results := filepath.Join(t.TempDir(), "results.jsonl")
	status, report, stderr := tiny(t, results, "-goal", "99", "-jobs", "2")
	if status != 1 {
		t.Fatalf("status %d, want 1 below the goal\n%s%s", status, report, stderr)
	}
	got := outcomes(t, results)
	for id, want := range map[string]outcome{
		"tiny.go Adult: return age > 17 -> return !(age > 17) #0": killed,
		"tiny.go Adult: age > 17 -> age >= 17 #0":                 survived,
		"tiny.go Adult: age > 17 -> age > 18 #0":                  survived,
		"tiny.go Name: first + last -> first - last #0":           notBuilt,
	} {
		if got[id] != want {
			t.Errorf("%s: %q, want %q", id, got[id], want)
		}
	}
	for id := range got {
		if strings.Contains(id, "log.Info") || strings.Contains(id, `return ""`) {
			t.Errorf("tried: %s", id)
		}
	}
	for _, want := range []string{
		"tiny.go:7: age > 17 -> age >= 17", "tiny.go Adult: 1 of 3 killed", "1 did not build, 1 are equivalent",
	} {
		if !strings.Contains(report, want) {
			t.Errorf("the report lacks %q:\n%s", want, report)
		}
	}
	if after, _ := os.ReadFile("testdata/tiny/tiny.go"); !bytes.Equal(before, after) {
		t.Error("the file has changed")
	}

	t.Run("a second run tries nothing", func(t *testing.T) {
		t.Setenv("TINY_BROKEN", "1") // the control would fail
		if status, again, stderr := tiny(t, results); status != 0 || again != report {
			t.Errorf("status %d, %s\n%s\nwant the report of the first run:\n%s", status, stderr, again, report)
		}
	})
	t.Run("tests elsewhere count", func(t *testing.T) {
		_, with, _ := tiny(t, results, "-with", ".=other")
		if strings.Contains(with, "age >= 17") || !strings.Contains(with, "age > 18") {
			t.Errorf("want the boundary to be killed, and nothing else:\n%s", with)
		}
	})
}

func TestFailingControlIsAnError(t *testing.T) {
	t.Setenv("TINY_BROKEN", "1")
	status, _, stderr := tiny(t, filepath.Join(t.TempDir(), "results.jsonl"))
	if status != 2 || !strings.Contains(stderr, "unchanged tests of . fail (TestAdult)") {
		t.Errorf("status %d: %s", status, stderr)
	}
}

func TestEquivalentThatFitsNothingIsAnError(t *testing.T) {
	stale := filepath.Join(t.TempDir(), "equivalent.txt")
	if err := os.WriteFile(stale, []byte("tiny.go Gone\na -> b\nA reason.\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	results := filepath.Join(t.TempDir(), "results.jsonl")
	status, report, _ := tiny(t, results, "-equivalent", stale, "-only", "tiny.go Name")
	if status != 1 || !strings.Contains(report, "fits no mutant any more: tiny.go Gone: a -> b") {
		t.Errorf("status %d:\n%s", status, report)
	}
}

func TestEndlessMutantCountsAsKilled(t *testing.T) {
	j := &judge{p: &pkg{tests: []string{"."}}, scratch: t.TempDir()}
	j.p.Module.Dir = j.scratch
	binary := filepath.Join(j.scratch, "endless")
	if err := os.WriteFile(binary, []byte("#!/bin/sh\nsleep 3600 &\nwait\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, _, err := j.run(t.Context(), ".", binary, 1); err != errLimit {
		t.Errorf("got %v, want %v", err, errLimit)
	}
	r := &report{}
	r.add(&mutant{}, timedOut)
	if r.score() != 100 {
		t.Errorf("score %v, want 100", r.score())
	}
}

func TestSampleStaysWhenOtherCodeChanges(t *testing.T) {
	const one = "package p\n\nfunc A(a, b int) bool { return a < b && b < 10 || a == 3 }\n"
	names := func(source string) (all []string) {
		found, err := find("p.go", []byte(source))
		if err != nil {
			t.Fatal(err)
		}
		order(found, 7)
		for _, m := range found {
			if m.Func == "A" {
				all = append(all, m.id())
			}
		}
		return all
	}
	first := names(one)
	if len(first) < 6 {
		t.Fatalf("only %q", first)
	}
	if second := names("package p\n\n// B is new.\nfunc B(x int) int { return x + 1 }\n" + strings.TrimPrefix(one, "package p\n")); !slices.Equal(first, second) {
		t.Errorf("got %q\nwant %q", second, first)
	}
}

// A value returned together with an error has no meaning, and a log line is not behaviour: tests should not cover them.
func TestWhatNobodyLooksAtStays(t *testing.T) {
	found, err := find("p.go", []byte(`package p

func (w *T[K]) F(log *Logger) (int, bool, error) {
	if w.n > 0 {
		log.Warn("text", 5)
		return 1, true, w.fails()
	}
	return 0, false, nil
}
`))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range found {
		got = append(got, m.Func+": "+m.Old+" -> "+m.New)
	}
	want := []string{
		"(*T).F: w.n > 0 -> !(w.n > 0)", "(*T).F: w.n > 0 -> w.n >= 0", "(*T).F: w.n > 0 -> w.n > 1",
		"(*T).F: return 1, true, w.fails() -> return 1, true, nil",
		"(*T).F: return 0, false, nil -> return 1, false, nil", "(*T).F: return 0, false, nil -> return 0, true, nil",
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestBrokenListsAndFlagsAreRefused(t *testing.T) {
	list := filepath.Join(t.TempDir(), "equivalent.txt")
	if err := os.WriteFile(list, []byte("\ntiny.go Name\na -> b\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := readEquivalents(list); err == nil || !strings.Contains(err.Error(), ":2: want") {
		t.Errorf("an entry without a reason: %v", err)
	}
	for _, args := range [][]string{{"-jobs", "0"}, {"rest"}, {"-with", "a"}, {"-packages", "nowhere"}} {
		if status, _, stderr := tiny(t, filepath.Join(t.TempDir(), "r"), args...); status != 2 || stderr == "" {
			t.Errorf("%q: status %d, %s", args, status, stderr)
		}
	}
}
