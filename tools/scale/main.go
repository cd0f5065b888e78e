// Command scale generates parts of docs/scale.md from measurements: its tables, between markers, and its plots.
//
//	go test -run '^$' -bench . ./test/bench | go run ./tools/scale -record 1   add measurements at factor 1
//	go run ./tools/scale                                                  write tables and plots
//	go run ./tools/scale -check                                           fail if they do not match the measurements
//
// "make scale" measures at all sizes and takes about half an hour.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const (
	folder   = "docs/scale"
	document = "docs/scale.md"
	data     = folder + "/measurements.json"
)

func main() {
	record := flag.String("record", "", "add the output of go test -bench, read from the standard input, as measured at this `factor`")
	check := flag.Bool("check", false, "fail if tables and plots are not what the measurements say, and write nothing")
	flag.Parse()
	var err error
	if *record != "" {
		err = add(*record, os.Stdin)
	} else {
		err = write(*check)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "scale:", err)
		os.Exit(1)
	}
}

// add adds measurements to the file.
func add(factor string, in io.Reader) error {
	m, err := load(data)
	if errors.Is(err, os.ErrNotExist) {
		m = &Measurements{Points: map[string]Point{}}
	} else if err != nil {
		return err
	}
	text, err := io.ReadAll(in)
	if err != nil {
		return err
	}
	if err := m.record(factor, string(text)); err != nil {
		return err
	}
	return m.save(data)
}

// write writes the generated files, or checks them.
func write(check bool) error {
	m, err := load(data)
	if err != nil {
		return err
	}
	files, err := outputs(m)
	if err != nil {
		return err
	}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if !check {
			errs = append(errs, os.WriteFile(name, files[name], 0o644))
			continue
		}
		have, err := os.ReadFile(name)
		if err != nil {
			errs = append(errs, err)
		} else if !bytes.Equal(have, files[name]) {
			errs = append(errs, fmt.Errorf("%s is not what %s says: run go run ./tools/scale", name, data))
		}
	}
	return errors.Join(errs...)
}

// outputs returns all generated files by name.
func outputs(m *Measurements) (map[string][]byte, error) {
	model, err := fit(m)
	if err != nil {
		return nil, err
	}
	files := make(map[string][]byte)
	for name, p := range plots(m, model) {
		files[filepath.Join(folder, name+".svg")] = p.svg()
	}
	text, err := os.ReadFile(document)
	if err != nil {
		return nil, err
	}
	filled := string(text)
	for name, part := range tables(m, model) {
		if filled, err = fill(filled, name, part); err != nil {
			return nil, fmt.Errorf("%s: %w", document, err)
		}
	}
	files[document] = []byte(filled)
	return files, nil
}

// fill inserts a part between its markers.
func fill(text, name, part string) (string, error) {
	begin, end := "<!-- "+name+" -->\n", "<!-- end "+name+" -->"
	head, rest, ok := strings.Cut(text, begin)
	_, tail, ended := strings.Cut(rest, end)
	if !ok || !ended {
		return "", fmt.Errorf("no place for %q between %q and %q", name, strings.TrimSpace(begin), end)
	}
	return head + begin + part + end + tail, nil
}
