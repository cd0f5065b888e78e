package durable

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"os"
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
