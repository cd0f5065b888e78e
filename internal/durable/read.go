package durable

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// Open opens a regular file of at most limit bytes and returns its size. It follows symbolic links, as in a mounted ConfigMap. It
// never blocks, whatever kind of file is at path, and reads nothing. The error wraps the one of the operating system, if it has one.
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

// Load passes the file at path to read, if it is a regular file of at most limit bytes. The error is nil if read accepts it by returning
// nil, and wraps [fs.ErrNotExist] if nothing is at path. Whatever cannot be used, or read rejects, is renamed to path.bad for later
// inspection: keptAs is that name, or empty if it cannot be moved. Only the last such file is kept; a non-empty folder of that name is
// never deleted. Load removes leftovers of writes.
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
