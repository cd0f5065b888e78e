package durable

import "crypto/tls"

// MaxTLSFile limits a file of certificates or keys, in bytes. The authorities of a system take about 200 KiB.
const MaxTLSFile = 16 << 20

// ReadKeyPair is [tls.LoadX509KeyPair] for regular files of at most [MaxTLSFile] bytes: opening a FIFO would block both start and
// shutdown. It returns the errors of [ReadFile] and [tls.X509KeyPair].
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
