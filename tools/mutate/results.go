package main

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

// result is a line of the file of results.
type result struct {
	Mutant  string  `json:"mutant"`
	Outcome outcome `json:"outcome"`
	By      string  `json:"by,omitempty"` // the test that failed
	Source  string  `json:"source"`       // hash of the changed file
	Tests   string  `json:"tests"`        // hash of the test folders
}

// results holds the results of earlier runs, and the file to which each new one is appended.
type results struct {
	mu    sync.Mutex
	known map[string]result
	file  *os.File
}

// openResults reads a file of results and continues it. It ignores an incomplete line of a killed process.
func openResults(path string) (*results, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	r := &results{known: make(map[string]result)}
	for line := range bytes.Lines(text) {
		var one result
		if json.Unmarshal(line, &one) == nil {
			r.known[one.Mutant] = one
		}
	}
	if r.file, err = os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644); err != nil {
		return nil, err
	}
	if len(text) > 0 && text[len(text)-1] != '\n' {
		_, err = r.file.WriteString("\n")
	}
	return r, err
}

// get returns the known result of a mutant. A survivor may be killed by changed tests; a killed one stays killed while its file
// is unchanged.
func (r *results) get(m *mutant, source, tests string) (result, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	one, ok := r.known[m.id()]
	if !ok || one.Source != source || one.Outcome == survived && one.Tests != tests {
		return result{}, false
	}
	return one, true
}

func (r *results) add(one result) error {
	line, err := json.Marshal(one)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.known[one.Mutant] = one
	_, err = r.file.Write(append(line, '\n'))
	return err
}

func hashOf(source []byte) string {
	sum := sha256.Sum256(source)
	return hex.EncodeToString(sum[:8])
}

// hashOfTests hashes all files in the folders of the tests and in their testdata.
func hashOfTests(p *pkg) (string, error) {
	h := sha256.New()
	for _, dir := range p.tests {
		root := filepath.Join(p.Module.Dir, filepath.FromSlash(dir))
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if d.IsDir() {
				if filepath.Dir(path) == root && d.Name() != "testdata" {
					return fs.SkipDir
				}
				return nil
			}
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			fmt.Fprintf(h, "%s %d\n%s", path, len(text), text)
			return nil
		})
		if err != nil {
			return "", err
		}
	}
	return hex.EncodeToString(h.Sum(nil)[:8]), nil
}

// equivalent is a mutant that no test can distinguish from the program, with the reason. It has no Nth: the reason applies to all
// with the same text in a function.
type equivalent struct {
	file, function, change string
	reason                 string
	line                   int
	used                   bool
}

// readEquivalents reads a list: paragraphs of at least three lines, with file and function, the change as shown in reports, and
// the reason. Lines that begin with # are comments.
func readEquivalents(path string) ([]*equivalent, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var all []*equivalent
	var now []string
	flush := func(line int) error {
		defer func() { now = nil }()
		if len(now) == 0 {
			return nil
		}
		if len(now) < 3 || !strings.Contains(now[1], " -> ") {
			return fmt.Errorf("%s:%d: want a line with file and function, one with the change, and the reason", path, line-len(now))
		}
		file, function, _ := strings.Cut(now[0], " ")
		all = append(all, &equivalent{
			file: file, function: function, change: now[1], reason: strings.Join(now[2:], " "), line: line - len(now),
		})
		return nil
	}
	lines := bufio.NewScanner(bytes.NewReader(text))
	n := 0
	for lines.Scan() {
		n++
		line := strings.TrimSpace(lines.Text())
		if strings.HasPrefix(line, "#") {
			continue
		}
		if line != "" {
			now = append(now, line)
			continue
		}
		if err := flush(n); err != nil {
			return nil, err
		}
	}
	return all, errors.Join(lines.Err(), flush(n+1))
}

// without removes the mutants on the list.
func without(mutants []*mutant, list []*equivalent) (left []*mutant, skipped int) {
	for _, m := range mutants {
		found := false
		for _, e := range list {
			if e.file == m.File && e.function == m.Func && e.change == m.Old+" -> "+m.New {
				e.used, found = true, true
			}
		}
		if found {
			skipped++
		} else {
			left = append(left, m)
		}
	}
	return left, skipped
}
