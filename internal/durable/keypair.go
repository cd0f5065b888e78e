package durable

import "crypto/tls"

// MaxTLSFile bounds a file of certificates or keys, in bytes. The authorities of a system have some 200 KiB.
const MaxTLSFile = 16 << 20

// ReadKeyPair is [tls.LoadX509KeyPair] for regular files of at most [MaxTLSFile] bytes: a FIFO would keep the process from
// starting and from ending. Errors are those of [ReadFile] and [tls.X509KeyPair].
func ReadKeyPair(cert, key string) (tls.Certificate, error) {
	certPEM, err := ReadFile(cert, MaxTLSFile)
	if err != nil {
		return tls.Certificate{}, err
	}
	keyPEM, err := ReadFile(key, MaxTLSFile)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.X509KeyPair(certPEM, keyPEM)
}
