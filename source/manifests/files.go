package manifests

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/routesrv/routesrv/kube"
)

const stdin = "-"

// attempts is how often to read files that change meanwhile. A ConfigMap volume is swapped atomically.
const attempts = 3

type digest [sha256.Size]byte

type content struct {
	name string
	text []byte
	sum  digest
	err  error // only for content that is read once: reading cannot be retried
}

type file struct {
	name string      // as shown to the user
	info fs.FileInfo // nil for files that are read once
}

// readFiles reads all files in one consistent state: if any changed meanwhile, it starts again.
func (s *Source) readFiles(ctx context.Context) ([]content, error) {
	files, err := s.find()
	if err != nil {
		return nil, err
	}
	for range attempts {
		contents := make([]content, len(files))
		for i, f := range files {
			err := ctx.Err()
			if err == nil {
				contents[i], err = s.readFile(f)
			}
			if err != nil {
				return nil, readError(f.name, err)
			}
		}
		again, err := s.find()
		if err != nil {
			return nil, err
		}
		if slices.EqualFunc(files, again, unchanged) {
			return contents, nil
		}
		files = again
	}
	return nil, readError(strings.Join(s.cfg.Paths, ", "), errors.New("the files keep changing while they are read"))
}

func unchanged(a, b file) bool {
	if a.name != b.name || (a.info == nil) != (b.info == nil) {
		return false
	}
	return a.info == nil ||
		os.SameFile(a.info, b.info) && a.info.Size() == b.info.Size() && a.info.ModTime().Equal(b.info.ModTime())
}

func (s *Source) readFile(f file) (content, error) {
	if f.info != nil {
		return s.open(f.name)
	}
	c, ok := s.once[f.name]
	if !ok {
		if f.name == stdin {
			c, c.err = s.readAll(f.name, s.cfg.Stdin)
		} else {
			c, c.err = s.open(f.name)
		}
		s.once[f.name] = c
	}
	return c, c.err
}

func (s *Source) open(name string) (content, error) {
	r, err := os.Open(name)
	if err != nil {
		return content{}, withoutPath(err)
	}
	defer func() { _ = r.Close() }() // opened only for reading
	return s.readAll(name, r)
}

func (s *Source) readAll(name string, r io.Reader) (content, error) {
	text, err := io.ReadAll(io.LimitReader(r, s.cfg.MaxFileBytes+1))
	switch {
	case err != nil:
		return content{}, withoutPath(err)
	case int64(len(text)) > s.cfg.MaxFileBytes:
		return content{}, fmt.Errorf("larger than %d bytes", s.cfg.MaxFileBytes)
	}
	return content{name: name, text: text, sum: sha256.Sum256(text)}, nil
}

func withoutPath(err error) error {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return p.Err
	}
	return err
}

type finder struct {
	seen  map[string]bool // paths without symbolic links
	files []file
}

func (s *Source) find() ([]file, error) {
	f := finder{seen: make(map[string]bool)}
	for _, p := range s.cfg.Paths {
		var err error
		if p == stdin {
			err = f.add(file{name: p}, p)
		} else {
			err = f.path(p, true)
		}
		if err != nil {
			return nil, err
		}
	}
	return f.files, nil
}

// path adds the files that a path leads to. In a folder, only files named like manifests are read.
func (f *finder) path(name string, named bool) error {
	info, err := os.Stat(name) // follows symbolic links
	if err != nil {
		return readError(name, err)
	}
	real, err := filepath.EvalSymlinks(name)
	if err == nil {
		real, err = filepath.Abs(real)
	}
	if err != nil {
		return readError(name, err)
	}
	switch {
	case info.IsDir():
		return f.folder(name, real)
	case !named && !manifest(filepath.Base(name)):
		return nil
	case info.Mode().IsRegular():
		return f.add(file{name, info}, real)
	case named: // a pipe, for example
		return f.add(file{name: name}, real)
	default:
		return nil
	}
}

func (f *finder) folder(name, real string) error {
	if f.seen[real] {
		return nil // a loop of links, or a folder named twice
	}
	f.seen[real] = true
	entries, err := os.ReadDir(name)
	if err != nil {
		return readError(name, err)
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return cmp.Compare(a.Name(), b.Name()) })
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") {
			continue // hidden, such as the inside of a ConfigMap volume
		}
		if e.Type().IsRegular() && !manifest(e.Name()) {
			continue // it need not even be readable
		}
		if err := f.path(filepath.Join(name, e.Name()), false); err != nil {
			return err
		}
	}
	return nil
}

func (f *finder) add(file file, real string) error {
	if f.seen[real] {
		return nil
	}
	f.seen[real] = true
	if len(f.files) == maxFiles {
		return readError(file.name, fmt.Errorf("more than %d files", maxFiles))
	}
	f.files = append(f.files, file)
	return nil
}

func manifest(base string) bool {
	ext := filepath.Ext(base)
	switch strings.TrimSuffix(base, ext) {
	case "kustomization", "Kustomization":
		return false
	}
	return ext == ".yaml" || ext == ".yml" || ext == ".json"
}

func readError(name string, err error) error {
	return &kube.ReadError{Verb: "read", Resource: name, Err: withoutPath(err)}
}
