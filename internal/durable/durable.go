// Package durable writes files that survive a crash intact, and reads files safely whatever they are.
//
// [WriteFile] replaces a file as a whole: a reader finds either the old or the new content, even after a power failure. Files
// have mode 0600. [Open] and [ReadFile] accept only regular files of a bounded size, so that a FIFO, a device or a huge file
// neither blocks the caller nor fills its memory. [Load] reads a file that a process keeps for its next start: whatever is found
// in its place never prevents that.
//
// Each write has a temporary file with another name. A process killed in the middle of a write leaves one behind, which the next
// start removes ([Tidy]). If two processes share a folder by mistake, the target always has the whole content of one of them. The
// directory must be writable, not only the file, and a target that is a symbolic link is replaced by a file.
package durable

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// temporary returns the folder of the temporary files for path, and what their names begin with.
func temporary(path string) (dir, prefix string) {
	return filepath.Dir(path), "." + filepath.Base(path) + ".tmp"
}

// WriteFile replaces or creates the file at path with what write writes. If any step before the rename fails, the file is
// unchanged. If only syncing the directory fails, the new content is in place but may be lost after a power failure.
func WriteFile(path string, write func(io.Writer) error) (err error) {
	f, err := os.CreateTemp(temporary(path)) // with mode 0600: a routing table names internal hosts and may contain credentials
	if err != nil {
		return err
	}
	if err = write(f); err != nil {
		err = fmt.Errorf("write %q: %w", path, err)
	} else {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return syncDir(filepath.Dir(path))
}

// WriteChecked is [WriteFile] for data after a line with its SHA-256, for [LoadChecked].
func WriteChecked(path string, data []byte) error {
	return WriteFile(path, func(w io.Writer) error {
		if _, err := fmt.Fprintf(w, "%x\n", sha256.Sum256(data)); err != nil {
			return err
		}
		_, err := w.Write(data)
		return err
	})
}

// errChecksum means that a file was changed or damaged after [WriteChecked].
var errChecksum = errors.New("checksum mismatch: the file is damaged or was edited")

// LoadChecked is [Load] for a file of [WriteChecked] with at most limit bytes of data.
func LoadChecked(path string, limit int64, read func(data []byte) error) (keptAs string, err error) {
	return Load(path, limit+2*sha256.Size+1, func(r io.Reader) error {
		text, err := io.ReadAll(r)
		if err != nil {
			return err
		}
		sum, data, _ := bytes.Cut(text, []byte("\n"))
		if string(sum) != fmt.Sprintf("%x", sha256.Sum256(data)) {
			return errChecksum
		}
		return read(data)
	})
}

// syncDir makes the files created or renamed in dir durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Tidy removes the temporary files that killed processes left behind for path, and nothing else. Call it before the first write:
// it would also remove the file of a write in progress, which would then fail.
func Tidy(path string) {
	dir, prefix := temporary(path)
	entries, _ := os.ReadDir(dir) // a missing folder has no entries
	for _, e := range entries {
		if random, ours := strings.CutPrefix(e.Name(), prefix); ours && strings.Trim(random, "0123456789") == "" && e.Type().IsRegular() {
			_ = os.Remove(filepath.Join(dir, e.Name())) // a leftover file is harmless
		}
	}
}

// Writer calls a function in a goroutine, so that callers need not wait for a disk. The goroutine runs only while writes are
// pending. Requests that arrive during a write lead to one more call. All methods are safe for concurrent use.
type Writer struct {
	write func()

	mu    sync.Mutex
	again bool          // requested since the last call began
	idle  chan struct{} // closed when the goroutine has ended; nil without a goroutine
}

// NewWriter returns a Writer for a function that writes the state at the time of the call.
func NewWriter(write func()) *Writer { return &Writer{write: write} }

// Request makes the Writer write. It returns at once.
func (w *Writer) Request() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.again = true
	if w.idle == nil {
		w.idle = make(chan struct{})
		go w.run()
	}
}

func (w *Writer) run() {
	for {
		w.mu.Lock()
		if !w.again {
			close(w.idle)
			w.idle = nil
			w.mu.Unlock()
			return
		}
		w.again = false
		w.mu.Unlock()
		w.write()
	}
}

// Writing reports whether something is being written.
func (w *Writer) Writing() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.idle != nil
}

// Wait waits until all writes are done. It returns false if end fires first.
func (w *Writer) Wait(end <-chan time.Time) bool {
	w.mu.Lock()
	idle := w.idle
	w.mu.Unlock()
	if idle == nil {
		return true
	}
	select {
	case <-idle:
		return true
	case <-end:
		return false
	}
}

// Open opens a regular file of at most limit bytes and returns its size. It follows symbolic links, as in a mounted ConfigMap. It
// never blocks, whatever kind of file is at path, and reads nothing. The error wraps the error of the operating system, if any.
func Open(path string, limit int64) (*os.File, int64, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, 0, err
	}
	info, err := f.Stat()
	switch {
	case err != nil:
	case !info.Mode().IsRegular():
		err = fmt.Errorf("open %q: not a regular file: its mode is %s", path, info.Mode())
	case info.Size() > limit:
		err = fmt.Errorf("open %q: file is too large: %d bytes, limit %d", path, info.Size(), limit)
	default:
		return f, info.Size(), nil
	}
	return nil, 0, errors.Join(err, f.Close())
}

// ReadFile reads a regular file of at most limit bytes, with the errors of Open.
func ReadFile(path string, limit int64) ([]byte, error) {
	f, _, err := Open(path, limit)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, limit+1)) // a file that grows meanwhile is still limited
	if err == nil && int64(len(data)) > limit {
		return nil, fmt.Errorf("read %q: file is too large: more than %d bytes", path, limit)
	}
	return data, err
}

// MaxTLSFile limits a file of certificates or keys, in bytes. The authorities of a system take about 200 KiB.
const MaxTLSFile = 16 << 20

// ReadKeyPair is [tls.LoadX509KeyPair] for regular files of at most [MaxTLSFile] bytes: opening a FIFO would block both start and
// shutdown. It returns the errors of [ReadFile] and [tls.X509KeyPair].
func ReadKeyPair(cert, key string) (tls.Certificate, error) {
	certPEM, errCert := ReadFile(cert, MaxTLSFile)
	keyPEM, errKey := ReadFile(key, MaxTLSFile)
	if err := errors.Join(errCert, errKey); err != nil {
		return tls.Certificate{}, err
	}
	return tls.X509KeyPair(certPEM, keyPEM)
}

// badSuffix is appended to the name of a file that was set aside.
const badSuffix = ".bad"

// Load passes the file at path to read, if it is a regular file of at most limit bytes. The error is nil if read returns nil, and
// wraps [fs.ErrNotExist] if path does not exist. Load renames an unusable or rejected file to path.bad: keptAs is that name, or
// empty if that fails. A non-empty folder of that name is never deleted. Load also removes temporary files of interrupted writes.
func Load(path string, limit int64, read func(io.Reader) error) (keptAs string, err error) {
	Tidy(path)
	err = load(path, limit, read)
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	aside := path + badSuffix
	moveErr := os.Rename(path, aside)
	if moveErr != nil && os.Remove(aside) == nil { // a file cannot be renamed over a folder, nor a folder over a file
		moveErr = os.Rename(path, aside)
	}
	if moveErr != nil {
		return "", fmt.Errorf("%w; set aside: %w", err, moveErr)
	}
	_ = syncDir(filepath.Dir(path)) // after a power failure it is set aside again
	return aside, err
}

func load(path string, limit int64, read func(io.Reader) error) error {
	f, size, err := Open(path, limit)
	if err != nil {
		return err
	}
	defer f.Close()
	return read(io.NewSectionReader(f, 0, size))
}
