package lister

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"hash"
)

// Digest identifies a text. There is one for each object.
type Digest [16]byte

// WireDigest is the SHA-256 of a compressed answer.
type WireDigest [sha256.Size]byte

// Hasher computes the digests of objects. It is not safe for concurrent use; its forks compute the same digests.
//
// It is GMAC, the authentication code of AES-GCM, with a random key that never leaves the process and one nonce for all.
// That is a universal hash: two different texts of up to n bytes, chosen by somebody who does not know the key, have
// the same digest with a probability of at most (n/16+2)/2^128, and nobody ever sees a digest. So nobody who writes
// objects can hide one behind another. SHA-256 would prevent that as well, but takes three times as long.
type Hasher struct {
	key   [16]byte
	aead  cipher.AEAD // nil where GCM does not allow a caller's nonce (FIPS 140 only mode): then SHA-256 of key and text
	nonce []byte
	out   []byte // memory for one Digest
	hash  hash.Hash
}

func newHasher() (*Hasher, error) {
	h := &Hasher{}
	if _, err := rand.Read(h.key[:]); err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(h.key[:])
	if err != nil {
		return nil, err
	}
	if h.aead, err = cipher.NewGCM(block); err != nil {
		h.aead = nil
	}
	return h.fork(), nil
}

// fork returns a hasher with the same key.
func (h *Hasher) fork() *Hasher {
	if h.aead == nil {
		return &Hasher{key: h.key, hash: sha256.New(), out: make([]byte, 0, sha256.Size)}
	}
	return &Hasher{key: h.key, aead: h.aead, nonce: make([]byte, h.aead.NonceSize()), out: make([]byte, 0, h.aead.Overhead())}
}

// Sum returns the digest of the text.
func (h *Hasher) Sum(text []byte) (d Digest) {
	if h.aead == nil {
		h.hash.Reset()
		h.hash.Write(h.key[:])
		h.hash.Write(text)
		return Digest(h.hash.Sum(h.out)[:len(d)])
	}
	copy(d[:], h.aead.Seal(h.out, h.nonce, nil, text)) // encrypts nothing: it only authenticates the text
	return d
}
