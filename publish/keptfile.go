package publish

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"reflect"
	"sync"
	"syscall"
	"time"

	"github.com/routesrv/routesrv/internal/durable"
	"github.com/routesrv/routesrv/kube"
)

const (
	// keptSuffix is appended to the path of the last-known-good file.
	keptSuffix = ".kept.json"
	// MaxKept limits the JSON form of a list of kept objects, in bytes. Writing a longer list is an error.
	MaxKept = 64 << 20
	// keptWait is how long a table or a command waits for the disk.
	keptWait = 2 * time.Second
)

// keptFile has the list of exceptions, apart from the last-known-good file, so that a damaged table does not publish an
// accident. Without a path all methods do nothing. It is safe for concurrent use.
type keptFile struct {
	path   string
	log    *slog.Logger
	writer *durable.Writer
	put    func(path string, data []byte) error // durable.WriteChecked, except in tests

	mu         sync.Mutex // guards the fields below
	want, disk keptList
	written    bool // disk is on disk
	err        error
}

func newKeptFile(cfg FileConfig, log *slog.Logger) *keptFile {
	f := &keptFile{log: log, put: durable.WriteChecked, written: true}
	if cfg.Path != "" && !cfg.Plain {
		f.path = cfg.Path + keptSuffix
	}
	f.writer = durable.NewWriter(f.flush)
	return f
}

// load returns the list of an earlier process, if any. An unusable one is logged and set aside.
func (f *keptFile) load() keptList {
	if f.path == "" {
		return nil
	}
	var list keptList
	keptAs, err := durable.LoadChecked(f.path, MaxKept, func(data []byte) (err error) {
		list, err = DecodeKept(data)
		return err
	})
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) { // the last-known-good file reports the folder
			f.log.Error("list of kept objects is not usable, set aside: what an earlier process kept is unknown",
				"path", f.path, "error", err, "kept_as", keptAs)
		}
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.want, f.disk = list, list
	return list
}

// write makes a list durable. If that fails, or takes longer than keptWait, the file keeps the previous list.
func (f *keptFile) write(list keptList) error {
	if f.path == "" {
		return nil
	}
	f.mu.Lock()
	before := f.want
	f.mu.Unlock()
	err := f.keep(list)
	if err != nil {
		f.mu.Lock()
		f.want = before
		f.mu.Unlock()
	}
	return err
}

// keep requests a write of the list and waits for it. If it fails, later calls retry.
func (f *keptFile) keep(list keptList) error {
	f.mu.Lock()
	f.want = list
	pending := f.path != "" && (!f.written || !reflect.DeepEqual(f.want, f.disk))
	f.mu.Unlock()
	if !pending {
		return nil
	}
	f.writer.Request()
	if !f.writer.Wait(time.After(keptWait)) {
		return fmt.Errorf("write %q: the disk takes longer than %v", f.path, keptWait)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}

// flush writes the list.
func (f *keptFile) flush() {
	f.mu.Lock()
	list, failed := f.want, f.err
	f.mu.Unlock()
	text, err := json.Marshal(list)
	if len(list) == 0 {
		text = []byte("[]")
	}
	if err == nil && len(text) > MaxKept {
		err = fmt.Errorf("%d kept objects take %d bytes, the limit is %d", len(list), len(text), MaxKept)
	}
	if err == nil {
		err = f.put(f.path, text)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err = err; err == nil {
		f.disk, f.written = list, true
	} else {
		f.written = false
	}
	switch {
	case err != nil && failed == nil:
		f.log.Error("list of kept objects cannot be written: a restart would not know of the newest entries",
			"path", f.path, "error", err)
	case err == nil && failed != nil:
		f.log.Info("list of kept objects written again", "path", f.path)
	}
}

// DecodeKept reads the JSON form of kept objects. The error names the first one that is not valid.
func DecodeKept(text []byte) ([]*Kept, error) {
	var list keptList
	if err := json.Unmarshal(text, &list); err != nil {
		return nil, fmt.Errorf("decode kept objects: %w", err)
	}
	seen := make(map[kube.Ref]bool, len(list))
	for _, k := range list {
		switch {
		case k == nil:
			return nil, errors.New("decode kept objects: null in the list")
		case seen[k.Ref]:
			return nil, fmt.Errorf("decode kept objects: %s is listed twice", k.Ref)
		}
		seen[k.Ref] = true
		if err := k.check(); err != nil {
			return nil, fmt.Errorf("decode kept objects: %w", err)
		}
	}
	return list.sorted(), nil
}

// ReadKept reads the list of another replica. It fails for more than [MaxKept] bytes, and as [DecodeKept] does.
func ReadKept(r io.Reader) ([]*Kept, error) {
	text, err := io.ReadAll(io.LimitReader(r, MaxKept+1))
	if err != nil {
		return nil, fmt.Errorf("read kept objects: %w", err)
	}
	if len(text) > MaxKept {
		return nil, fmt.Errorf("read kept objects: more than %d bytes", MaxKept)
	}
	return DecodeKept(text)
}
