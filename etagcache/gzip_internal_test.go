package etagcache

import (
	"bytes"
	"compress/gzip"
	"hash/crc32"
	"io"
	"math/rand/v2"
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
	rng := rand.New(rand.NewPCG(1, 1))
	enc := &encoder{}
	for n := range 6 {
		var all []*piece
		var want []byte
		for i := range n {
			text := make([]byte, rng.IntN(100_000))
			for j := range text {
				text[j] = "abcdefgh\n"[rng.IntN(9)]
			}
			p := &piece{size: len(text)}
			p.gzip.Store(&deflated{enc.deflate(text), crc32.ChecksumIEEE(text)})
			frame := enc.zstdOf(text)
			p.zstd.Store(&frame)
			all = append(all, p)
			if i > 0 {
				want = append(want, '\n')
			}
			want = append(want, text...)
		}
		zip, err := gzip.NewReader(bytes.NewReader(whole(t, gzipBody(all))))
		if err != nil {
			t.Fatal(err)
		}
		zip.Multistream(false) // one member, for decoders that support no more
		if got, err := io.ReadAll(zip); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%d blocks: %d bytes of gzip, error %v, want %d", n, len(got), err, len(want))
		}
		dec, err := zstd.NewReader(nil)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := dec.DecodeAll(whole(t, zstdBody(all)), nil); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%d blocks: %d bytes of zstd, error %v, want %d", n, len(got), err, len(want))
		}
		dec.Close()
	}
}

// whole reads a body in both ways, which must agree with each other and with its size.
func whole(t *testing.T, b body) []byte {
	t.Helper()
	var joined []byte
	for part := range b.parts {
		joined = append(joined, part...)
	}
	read, err := io.ReadAll(b.reader())
	if err != nil {
		t.Fatal(err)
	}
	if len(joined) != b.size || !bytes.Equal(joined, read) {
		t.Errorf("%d bytes in parts, %d bytes read, want %d and the same bytes", len(joined), len(read), b.size)
	}
	return joined
}
