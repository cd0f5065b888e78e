package etagcache

import (
	"bytes"
	"compress/gzip"
	"hash/crc32"
	"io"
	"testing"

	"github.com/klauspost/compress/zstd"
)

// FuzzChecksumOfParts checks that the checksum combined from parts equals that of the whole.
func FuzzChecksumOfParts(f *testing.F) {
	f.Add([]byte("123456789"), 4)
	f.Add([]byte{}, 0)
	f.Add(bytes.Repeat([]byte{0}, 1000), 999)
	f.Fuzz(func(t *testing.T, data []byte, cut int) {
		cut = max(0, min(cut, len(data)))
		var sum checksum
		for _, part := range [][]byte{data[:cut], nil, data[cut:]} {
			sum.add(crc32.ChecksumIEEE(part), len(part))
		}
		if want := crc32.ChecksumIEEE(data); sum.crc != want || sum.size != uint32(len(data)) {
			t.Errorf("checksum of %q and %q is %08x of %d bytes, want %08x", data[:cut], data[cut:], sum.crc, sum.size, want)
		}
	})
}

// TestBodyOfPiecesIsOneStream reads bodies back with independent decoders, checksums included.
func TestBodyOfPiecesIsOneStream(t *testing.T) {
	for _, routes := range []int{0, 1, 300, 3000} {
		tab := numbered(t, routes, 1)
		c, err := New(Config{})
		if err != nil {
			t.Fatal(err)
		}
		c.Publish(tab)
		va, want := c.state.Load().version.full, tab.Text()
		if routes == 3000 && len(tab.Routes().Blocks()) < 3 {
			t.Fatalf("%d blocks", len(tab.Routes().Blocks()))
		}
		zip, err := gzip.NewReader(bytes.NewReader(whole(t, va.body(gzipped))))
		if err != nil {
			t.Fatal(err)
		}
		zip.Multistream(false) // one member, for decoders that support no more
		if got, err := io.ReadAll(zip); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%d routes: %d bytes of gzip, error %v, want %d", routes, len(got), err, len(want))
		}
		dec, err := zstd.NewReader(nil)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := dec.DecodeAll(whole(t, va.body(zstandard)), nil); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%d routes: %d bytes of zstd, error %v, want %d", routes, len(got), err, len(want))
		}
		dec.Close()
		if got := whole(t, va.body(identity)); !bytes.Equal(got, want) {
			t.Errorf("%d routes: %d bytes of text, want %d", routes, len(got), len(want))
		}
	}
}

// whole reads a body part by part and in ranges, which must agree with each other and with its size.
func whole(t *testing.T, b *body) []byte {
	t.Helper()
	var joined bytes.Buffer
	for _, p := range b.parts {
		if _, err := joined.ReadFrom(io.NewSectionReader(p, 0, p.Size())); err != nil {
			t.Error(err)
		}
	}
	size := joined.Len()
	if int64(size) != b.size {
		t.Errorf("%d bytes, want %d", size, b.size)
	}
	end := 0
	places := []int{0, size - 1, size, size + 1}
	for _, p := range b.parts {
		end += int(p.Size())
		places = append(places, end-1, end, end+1)
	}
	for _, off := range places {
		for _, size := range []int{0, 1, 2, 100, joined.Len()} {
			got, want := make([]byte, size), make([]byte, size)
			n, err := b.ReadAt(got, int64(max(0, off)))
			wantN, wantErr := bytes.NewReader(joined.Bytes()).ReadAt(want, int64(max(0, off)))
			if n != wantN || size > 0 && err != wantErr || !bytes.Equal(got[:n], want[:wantN]) {
				t.Fatalf("%d bytes at %d: %d, error %v, want %d, error %v", size, off, n, err, wantN, wantErr)
			}
		}
	}
	return joined.Bytes()
}
