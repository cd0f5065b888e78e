package config

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
)

// Instance is another process of the same executable.
type Instance struct {
	PID           int
	Args, Environ []string // Args without the name of the program
}

// Instances returns the other processes that run this executable, as far as this process may see them: in a container, the one that
// serves. Processes that cannot be read, such as those of other users, are left out.
func Instances() []Instance {
	own, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return nil
	}
	folders, _ := filepath.Glob("/proc/[0-9]*") // the pattern is correct
	var all []Instance
	for _, folder := range folders {
		pid, err := strconv.Atoi(filepath.Base(folder))
		if err != nil || pid == os.Getpid() {
			continue
		}
		if exe, err := os.Readlink(folder + "/exe"); err != nil || exe != own {
			continue
		}
		args, err := readList(folder + "/cmdline")
		environ, err2 := readList(folder + "/environ")
		if err != nil || err2 != nil || len(args) == 0 {
			continue
		}
		all = append(all, Instance{pid, args[1:], environ})
	}
	return all
}

// readList reads a file of texts that each end with a NUL byte.
func readList(path string) ([]string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var list []string
	for item := range bytes.SplitSeq(bytes.TrimSuffix(text, []byte{0}), []byte{0}) {
		list = append(list, string(item))
	}
	return list, nil
}

// FindState returns the state folder of the only other process that runs this executable and serves. State returns the folder of one;
// false means that it does not serve.
func FindState(state func(Instance) (folder string, serves bool)) (string, error) {
	var found []string
	for _, i := range Instances() {
		if folder, serves := state(i); serves {
			if folder == "" {
				return "", fmt.Errorf("process %d has no state folder and so no control socket: start it with --state-dir", i.PID)
			}
			if !filepath.IsAbs(folder) {
				folder = filepath.Join("/proc", strconv.Itoa(i.PID), "cwd", folder)
			}
			found = append(found, folder)
		}
	}
	switch len(found) {
	case 0:
		return "", errors.New("no other process runs this program here: run this in its pod, or set --state-dir")
	case 1:
		return found[0], nil
	}
	return "", fmt.Errorf("%d processes run this program here: choose one with --state-dir", len(found))
}
