package lister

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
)

// Digest identifies a text.
type Digest [sha256.Size]byte

// Hasher computes the digests of objects. It is not safe for concurrent use; its forks compute the same digests.
//
// It is GMAC, the authentication code of AES-GCM, with a random key that never leaves the process and one nonce for all.
// That is a universal hash: two different texts of up to n bytes, chosen by somebody who does not know the key, have
// the same digest with a probability of at most (n/16+2)/2^128, and nobody ever sees a digest. So nobody who writes
// objects can hide one behind another. SHA-256 would prevent that as well, but takes three times as long.
type Hasher struct {
	aead  cipher.AEAD // nil where GCM does not allow a caller's nonce (FIPS 140 only mode): then SHA-256
	nonce []byte
	out   []byte // memory for one Digest
}

func newHasher() (*Hasher, error) {
	var key [16]byte
	if _, err := rand.Read(key[:]); err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(key[:])
	if err != nil {
		return nil, err
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		return &Hasher{}, nil
	}
	return (&Hasher{aead: aead}).fork(), nil
}

// fork returns a hasher with the same key.
func (h *Hasher) fork() *Hasher {
	if h.aead == nil {
		return &Hasher{}
	}
	return &Hasher{h.aead, make([]byte, h.aead.NonceSize()), make([]byte, 0, h.aead.Overhead())}
}

// Sum returns the digest of the text.
func (h *Hasher) Sum(text []byte) (d Digest) {
	if h.aead == nil {
		return sha256.Sum256(text)
	}
	copy(d[:], h.aead.Seal(h.out, h.nonce, nil, text)) // encrypts nothing: it only authenticates the text
	return d
}
