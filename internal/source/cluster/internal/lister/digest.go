package lister

import "crypto/sha256"

// Digest is the SHA-256 of an object as a list has it. Many people write objects, and anyone who could make two versions
// of one collide could hide the second.
type Digest [sha256.Size]byte

// WireDigest is the SHA-256 of a compressed answer.
type WireDigest [sha256.Size]byte
