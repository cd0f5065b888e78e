package lister

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
)

// Digest tells texts apart.
type Digest [sha256.Size]byte

// Hasher makes the digests of objects. It is not safe for concurrent use; its forks make the same digests.
//
// It is GMAC, the authentication code of AES-GCM, with a random key that never leaves the process and one nonce for all.
// That is a universal hash: two different texts of up to n bytes, chosen by somebody who does not know the key, have the
// same digest with a probability of at most (n/16+2)/2^128, and nobody ever sees a digest. Whoever writes objects can so not
// hide one behind another, as with SHA-256, which takes three times as long.
type Hasher struct {
	aead  cipher.AEAD // nil where GCM with a nonce of one's own is not allowed (FIPS 140 only): SHA-256 then
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

// fork gives a hasher with the same key.
func (h *Hasher) fork() *Hasher {
	if h.aead == nil {
		return &Hasher{}
	}
	return &Hasher{h.aead, make([]byte, h.aead.NonceSize()), make([]byte, 0, h.aead.Overhead())}
}

// Sum is the digest of the text.
func (h *Hasher) Sum(text []byte) (d Digest) {
	if h.aead == nil {
		return sha256.Sum256(text)
	}
	copy(d[:], h.aead.Seal(h.out, h.nonce, nil, text)) // nothing is sealed: the text is only authenticated
	return d
}
