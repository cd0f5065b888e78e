package etagcache

import (
	"encoding/binary"
	"hash/crc32"
)

// gzipHeader is the header of a member without name and time (RFC 1952 §2.3), so that equal bodies have equal bytes.
var gzipHeader = []byte{0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255}

// gzipTrailer is the length of what appendTrailer appends.
const gzipTrailer = 5 + 4 + 4

// newlineCRC is the checksum of the line feed between two blocks.
var newlineCRC = crc32.ChecksumIEEE([]byte{'\n'})

// checksum computes the checksum of a gzip member from the known checksums of its parts, without reading the bytes again. The
// zero value is the checksum of no bytes.
type checksum struct {
	crc  uint32
	size uint32 // modulo 2^32, as the format requires
}

// add appends a part.
//
// A CRC is the remainder of a polynomial over GF(2) whose coefficients are the bits of the message. Appending n bytes multiplies
// the existing polynomial by x^(8n) and adds the part.
func (c *checksum) add(crc uint32, size int) {
	c.crc = multiply(powerOfX(8*uint64(size)), c.crc) ^ crc
	c.size += uint32(size)
}

// addBytes appends bytes without a known checksum.
func (c *checksum) addBytes(p []byte) { c.add(crc32.ChecksumIEEE(p), len(p)) }

// appendTrailer appends the end of a member: an empty last block, checksum, size.
func (c *checksum) appendTrailer(dst []byte) []byte {
	dst = append(dst, 0x01, 0x00, 0x00, 0xff, 0xff)
	dst = binary.LittleEndian.AppendUint32(dst, c.crc)
	return binary.LittleEndian.AppendUint32(dst, c.size)
}

// one is the polynomial 1: the highest bit is the coefficient of x^0.
const one = 1 << 31

// multiply multiplies two polynomials modulo the polynomial of CRC-32.
func multiply(a, b uint32) uint32 {
	product := uint32(0)
	for ; a != 0; a <<= 1 {
		if a&one != 0 {
			product ^= b
		}
		carry := b & 1
		b >>= 1
		if carry != 0 {
			b ^= crc32.IEEE
		}
	}
	return product
}

// powerOfX returns x^n modulo the polynomial of CRC-32, by squaring.
func powerOfX(n uint64) uint32 {
	result, square := uint32(one), uint32(one>>1)
	for ; n > 0; n >>= 1 {
		if n&1 != 0 {
			result = multiply(result, square)
		}
		square = multiply(square, square)
	}
	return result
}
