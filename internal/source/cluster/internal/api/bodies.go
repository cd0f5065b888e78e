package api

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"

	"github.com/klauspost/compress/gzip"

	"github.com/routesrv/routesrv/internal/source/cluster/internal/decode"
)

// mediaType returns the type that the body is to be decoded by. A server that says nothing, or no more than that it is
// text, is taken for one that speaks JSON.
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

// wireKept is how large the buffer for compressed bodies may stay between two reads.
const wireKept = 4 << 20

// bodies is the memory for the bodies of a Client, one at a time. Compressed bodies are a fifteenth of what is in them and
// are read as a whole, so that one which is that of the read before need not be inflated.
type bodies struct {
	wire   []byte
	window decode.Window
	source bytes.Reader
	zip    gzip.Reader
}

// read reads a whole compressed body. A body that ends before its Content-Length, its last chunk or its END_STREAM is an
// error of the transport; where there is none of these, its checksum shows it.
func (b *bodies) read(resp *http.Response, limit int64) ([]byte, error) {
	if n := resp.ContentLength; n > 0 {
		b.wire = slices.Grow(b.wire[:0], int(n)+1) // one more to see the end
	}
	var err error
	b.wire, err = readAll(b.wire[:0], resp.Body, limit)
	return b.wire, err
}

// inflate puts the window on what is in the compressed body. Checksum and length are verified at its end.
func (b *bodies) inflate(wire []byte, limit int64) error {
	b.source.Reset(wire)
	if err := b.zip.Reset(&b.source); err != nil {
		return &decode.SourceError{Err: err}
	}
	b.window.Reset(&b.zip, limit)
	return nil
}

// release lets go of what is larger than what is worth keeping until the next request.
func (b *bodies) release() {
	b.source.Reset(nil)
	b.window.Release()
	if cap(b.wire) > wireKept {
		b.wire = nil
	}
}

// readAll appends all that r has to buf and fails beyond the limit.
func readAll(buf []byte, r io.Reader, limit int64) ([]byte, error) {
	for {
		if len(buf) == cap(buf) {
			buf = slices.Grow(buf, max(64<<10, cap(buf)/2))
		}
		n, err := r.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		switch {
		case int64(len(buf)) > limit:
			return buf, fmt.Errorf("%w: more than %d bytes", decode.ErrTooLarge, limit)
		case errors.Is(err, io.EOF):
			return buf, nil
		case err != nil:
			return buf, err
		}
	}
}
