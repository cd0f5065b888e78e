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

// bodies is the memory for the bodies of a Client, one at a time. A compressed body is about a fifteenth of its
// content and is read as a whole, so that a body equal to the previous one need not be decompressed.
type bodies struct {
	wire   []byte
	window decode.Window
	source bytes.Reader
	zip    gzip.Reader
}

// read reads a whole compressed body. A body that ends before its Content-Length, its last chunk or its END_STREAM is
// a transport error; without any of these, the body's checksum detects it.
func (b *bodies) read(resp *http.Response, limit int64) ([]byte, error) {
	if n := resp.ContentLength; n > 0 {
		b.wire = slices.Grow(b.wire[:0], int(n)+1) // one extra byte to detect the end
	}
	var err error
	b.wire, err = readAll(b.wire[:0], resp.Body, limit)
	return b.wire, err
}

// inflate points the window at the decompressed content. Checksum and length are verified at its end.
func (b *bodies) inflate(wire []byte, limit int64) error {
	b.source.Reset(wire)
	if err := b.zip.Reset(&b.source); err != nil {
		return &decode.SourceError{Err: err}
	}
	b.window.Reset(&b.zip, limit)
	return nil
}

// release frees buffers that are too large to keep until the next request.
func (b *bodies) release() {
	b.source.Reset(nil)
	b.window.Release()
	if cap(b.wire) > wireKept {
		b.wire = nil
	}
}

// readAll appends everything from r to buf and fails beyond the limit.
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
