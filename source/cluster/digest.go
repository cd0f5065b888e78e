package cluster

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
)

// digest tells texts apart.
type digest [sha256.Size]byte

// hasher makes the digests of objects. It is not safe for concurrent use; its forks make the same digests.
//
// It is GMAC, the authentication code of AES-GCM, with a random key that never leaves the process and one nonce for all.
// That is a universal hash: two different texts of up to n bytes, chosen by somebody who does not know the key, have the
// same digest with a probability of at most (n/16+2)/2^128, and nobody ever sees a digest. Whoever writes objects can so not
// hide one behind another, as with SHA-256, which takes three times as long.
type hasher struct {
	aead  cipher.AEAD // nil where GCM with a nonce of one's own is not allowed (FIPS 140 only): SHA-256 then
	nonce []byte
	out   []byte // memory for one digest
}

func newHasher() (*hasher, error) {
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
		return &hasher{}, nil
	}
	return (&hasher{aead: aead}).fork(), nil
}

// fork gives a hasher with the same key.
func (h *hasher) fork() *hasher {
	if h.aead == nil {
		return &hasher{}
	}
	return &hasher{h.aead, make([]byte, h.aead.NonceSize()), make([]byte, 0, h.aead.Overhead())}
}

// sum is the digest of the text.
func (h *hasher) sum(text []byte) (d digest) {
	if h.aead == nil {
		return sha256.Sum256(text)
	}
	copy(d[:], h.aead.Seal(h.out, h.nonce, nil, text)) // nothing is sealed: the text is only authenticated
	return d
}
