package history

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Files of a folder with a history. Lists have one entry per line.
const (
	runFile      = "run.json"
	tablesFolder = "tables"
	tableSuffix  = ".eskip"
)

// Save writes the history to a folder, which it creates if necessary.
func (h *History) Save(folder string) error {
	if err := os.MkdirAll(filepath.Join(folder, tablesFolder), 0o700); err != nil {
		return err
	}
	run, err := json.MarshalIndent(h.Run, "", " ")
	if err != nil {
		return err
	}
	for digest, text := range h.Tables {
		if err := os.WriteFile(filepath.Join(folder, tablesFolder, digest+tableSuffix), []byte(text), 0o600); err != nil {
			return err
		}
	}
	return errors.Join(
		os.WriteFile(filepath.Join(folder, runFile), run, 0o600),
		save(folder, "changes", h.Changes), save(folder, "reads", h.Reads), save(folder, "faults", h.Faults),
		save(folder, "events", h.Events), save(folder, "publications", h.Publications),
		save(folder, "answers", h.Answers), save(folder, "samples", h.Samples),
	)
}

func save[T any](folder, name string, list []T) error {
	f, err := os.OpenFile(filepath.Join(folder, name+".jsonl"), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	w := bufio.NewWriter(f)
	lines := json.NewEncoder(w)
	for _, v := range list {
		if err := lines.Encode(v); err != nil {
			return errors.Join(err, f.Close())
		}
	}
	return errors.Join(w.Flush(), f.Close())
}

// Load reads the output of Save.
func Load(folder string) (*History, error) {
	h := &History{Tables: make(map[string]string)}
	run, err := os.ReadFile(filepath.Join(folder, runFile))
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(run, &h.Run); err != nil {
		return nil, fmt.Errorf("%s: %w", runFile, err)
	}
	err = errors.Join(
		load(folder, "changes", &h.Changes), load(folder, "reads", &h.Reads), load(folder, "faults", &h.Faults),
		load(folder, "events", &h.Events), load(folder, "publications", &h.Publications),
		load(folder, "answers", &h.Answers), load(folder, "samples", &h.Samples),
	)
	if err != nil {
		return nil, err
	}
	files, err := os.ReadDir(filepath.Join(folder, tablesFolder))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, f := range files {
		text, err := os.ReadFile(filepath.Join(folder, tablesFolder, f.Name()))
		if err != nil {
			return nil, err
		}
		h.Tables[strings.TrimSuffix(f.Name(), tableSuffix)] = string(text)
	}
	return h, nil
}

func load[T any](folder, name string, list *[]T) error {
	f, err := os.Open(filepath.Join(folder, name+".jsonl"))
	if err != nil {
		return err
	}
	defer f.Close()
	for lines := json.NewDecoder(bufio.NewReader(f)); ; {
		var v T
		if err := lines.Decode(&v); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("%s: entry %d: %w", name, len(*list)+1, err)
		}
		*list = append(*list, v)
	}
}
