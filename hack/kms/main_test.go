package main

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sigstore/sigstore/pkg/signature/kms/cliplugin"
)

// asProgram makes the test binary the program itself.
const asProgram = "ROUTESRV_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// install puts the program into the PATH under a name.
func install(t *testing.T, name string) string {
	t.Helper()
	dir := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(self, filepath.Join(dir, name)); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+string(filepath.ListSeparator)+os.Getenv("PATH"))
	t.Setenv(asProgram, "1")
	return filepath.Join(dir, name)
}

// vault is the part of Vault's transit engine that signs, with one key.
func vault(t *testing.T, key *ecdsa.PrivateKey) *httptest.Server {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	public := string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
	mux := http.NewServeMux()
	answer := func(w http.ResponseWriter, data any) {
		_ = json.NewEncoder(w).Encode(map[string]any{"data": data})
	}
	mux.HandleFunc("GET /v1/transit/keys/release", func(w http.ResponseWriter, r *http.Request) {
		answer(w, map[string]any{"latest_version": 1, "keys": map[string]any{"1": map[string]any{"public_key": public, "name": "P-256"}}})
	})
	mux.HandleFunc("PUT /v1/transit/sign/release/sha2-256", func(w http.ResponseWriter, r *http.Request) {
		var in struct {
			Input     []byte
			Prehashed bool
		}
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil || !in.Prehashed || r.Header.Get("X-Vault-Token") != "secret" {
			http.Error(w, `{"errors":["refused"]}`, http.StatusForbidden)
			return
		}
		sig, err := key.Sign(rand.Reader, in.Input, crypto.SHA256)
		if err != nil {
			t.Error(err)
		}
		answer(w, map[string]any{"signature": "vault:v1:" + base64.StdEncoding.EncodeToString(sig)})
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	t.Setenv("VAULT_ADDR", s.URL)
	t.Setenv("VAULT_TOKEN", "secret")
	return s
}

func TestVaultSigns(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	vault(t, key)
	install(t, "sigstore-kms-hashivault")
	s, err := cliplugin.LoadSignerVerifier(t.Context(), "hashivault://release", crypto.SHA256)
	if err != nil {
		t.Fatal(err)
	}
	public, err := s.PublicKey()
	if err != nil || !key.PublicKey.Equal(public) {
		t.Fatalf("public key %v, %v", public, err)
	}
	message := bytes.Repeat([]byte("a release "), 1<<20)
	sig, err := s.SignMessage(bytes.NewReader(message))
	if err != nil {
		t.Fatal(err)
	}
	if sum := sha256.Sum256(message); !ecdsa.VerifyASN1(&key.PublicKey, sum[:], sig) {
		t.Error("not a signature of the message")
	}
}

func TestErrorsOfTheServiceArrive(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	vault(t, key)
	t.Setenv("VAULT_TOKEN", "wrong")
	install(t, "sigstore-kms-hashivault")
	s, err := cliplugin.LoadSignerVerifier(t.Context(), "hashivault://release", crypto.SHA256)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.SignMessage(strings.NewReader("a release")); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("error %v", err)
	}
}

// TestNameDecides: another name is an error, and not a program that calls itself for ever.
func TestNameDecides(t *testing.T) {
	for _, name := range []string{"sigstore-kms-other", "kms"} {
		path := install(t, name)
		out, err := exec.CommandContext(t.Context(), path, "v1", `{"initOptions":{"keyResourceID":"x"},"methodName":"publicKey"}`).Output()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || !strings.Contains(string(out), "want sigstore-kms- and one of") {
			t.Errorf("%s: %v: %s", name, err, out)
		}
	}
	for _, args := range [][]string{{}, {"v1"}, {"v1", "{"}, {"v1", "{}"}} {
		path := install(t, "sigstore-kms-awskms")
		out, err := exec.CommandContext(t.Context(), path, args...).Output()
		if err == nil || !strings.Contains(string(out), "errorMessage") {
			t.Errorf("%q: %v: %s", args, err, out)
		}
	}
}
