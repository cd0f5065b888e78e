package cluster

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"

	"github.com/klauspost/compress/gzip"

	"github.com/routesrv/routesrv/internal/source/cluster/internal/decode"
)

// mediaType returns the media type for decoding the body. A missing content type or text/plain counts as JSON.
func mediaType(header string) (string, error) {
	if header == "" {
		return decode.MediaJSON, nil
	}
	t, _, err := mime.ParseMediaType(header)
	switch {
	case err != nil:
		return "", fmt.Errorf("content type %q: %w", header, err)
	case t == decode.MediaProtobuf, t == decode.MediaJSON:
		return t, nil
	case t == "text/plain":
		return decode.MediaJSON, nil
	default:
		return "", fmt.Errorf("content type %q: want %s or %s", header, decode.MediaProtobuf, decode.MediaJSON)
	}
}

// wireKept is the largest buffer for compressed bodies that is kept between two reads.
const wireKept = 4 << 20

// bodies is the memory for the bodies of a client, one at a time. A compressed body is about a fifteenth of its
// content and is read as a whole, so that a body equal to the previous one need not be decompressed.
type bodies struct {
	wire bytes.Buffer
	zip  gzip.Reader
}

// read reads a whole compressed body. A body that ends before its Content-Length, its last chunk or its END_STREAM is
// a transport error; without any of these, the body's checksum detects it.
func (b *bodies) read(resp *http.Response, limit int64) ([]byte, error) {
	if b.wire.Cap() > wireKept {
		b.wire = bytes.Buffer{}
	}
	b.wire.Reset()
	_, err := b.wire.ReadFrom(&limited{source: resp.Body, limit: limit})
	return b.wire.Bytes(), err
}

// sourceError is an error of what a body is read from: the network, or the decompressor.
type sourceError struct{ err error }

func (e *sourceError) Error() string { return e.err.Error() }
func (e *sourceError) Unwrap() error { return e.err }

// limited is a body that fails beyond a limit, and marks the errors of its source.
type limited struct {
	source      io.Reader
	limit, read int64
}

// Read implements [io.Reader].
func (l *limited) Read(p []byte) (int, error) {
	n, err := l.source.Read(p)
	l.read += int64(n)
	switch {
	case l.read > l.limit:
		return 0, fmt.Errorf("%w: more than %d bytes", decode.ErrTooLarge, l.limit)
	case err != nil && !errors.Is(err, io.EOF):
		return n, &sourceError{err}
	}
	return n, err
}
