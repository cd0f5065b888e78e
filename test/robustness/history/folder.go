package history

import (
	"bufio"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
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
