package publish

import (
	"context"
	"crypto"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/sigstore/sigstore/pkg/cryptoutils"
	"github.com/sigstore/sigstore/pkg/signature"
	"github.com/sigstore/sigstore/pkg/signature/kms"
)

// maxKeyFile limits a file with a private key, in bytes.
const maxKeyFile = 64 << 10

// Load returns the signer of a key: the path of a PEM file, or a URI of a key management service.
//
// A file holds an ECDSA, Ed25519 or RSA key in PKCS #8, optionally encrypted, or in the form that "cosign
// generate-key-pair" writes. Load calls password only for an encrypted key. A URI such as NAME://KEY is served by the
// program sigstore-kms-NAME in the PATH, which speaks the protocol of cosign's KMS plugins. The key never leaves the
// service.
func Load(ctx context.Context, key string, password func() ([]byte, error)) (signature.Signer, error) {
	if strings.Contains(key, "://") {
		s, err := kms.Get(ctx, key, crypto.SHA256)
		var missing *kms.ProviderNotFoundError
		if errors.As(err, &missing) {
			name, _, _ := strings.Cut(key, "://")
			return nil, fmt.Errorf("key %s: no program sigstore-kms-%s in the PATH: %w", key, name, err)
		}
		if err != nil {
			return nil, fmt.Errorf("key %s: %w", key, err)
		}
		return s, nil
	}
	f, err := os.Open(key)
	if err != nil {
		return nil, fmt.Errorf("key: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxKeyFile))
	if err != nil {
		return nil, fmt.Errorf("key: %w", err)
	}
	private, err := cryptoutils.UnmarshalPEMToPrivateKey(text, func(bool) ([]byte, error) { return password() })
	if err != nil {
		return nil, fmt.Errorf("key %s: %w", key, err)
	}
	s, err := signature.LoadSigner(private, crypto.SHA256)
	if err != nil {
		return nil, fmt.Errorf("key %s: %w", key, err)
	}
	return s, nil
}
