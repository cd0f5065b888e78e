package publish_test

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/elliptic"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sigstore/sigstore/pkg/cryptoutils"

	"github.com/routesrv/routesrv/internal/programs"
	"github.com/routesrv/routesrv/internal/release"
	"github.com/routesrv/routesrv/internal/release/publish"
)

const repository = "registry.example.org/team/routesrv"

// openssl runs the program, which knows nothing of our code and of the library that signs.
func openssl(t *testing.T, args ...string) []byte {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), programs.Tool(t, "openssl", "openssl"), args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("openssl %s: %v\n%s%s", strings.Join(args, " "), err, out, &stderr)
	}
	return out
}

// newKey makes a key with openssl: EC on the curve P-256, what cosign makes, unless args say more.
func newKey(t *testing.T, args ...string) string {
	t.Helper()
	if len(args) == 0 {
		args = []string{"-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"}
	}
	path := filepath.Join(t.TempDir(), "key.pem")
	openssl(t, append([]string{"genpkey", "-quiet", "-out", path}, args...)...)
	return path
}

func noPassword() ([]byte, error) { return nil, errors.New("no password") }

func sign(t *testing.T, dir, key string, password func() ([]byte, error)) {
	t.Helper()
	r, err := publish.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	s, err := publish.Load(t.Context(), key, password)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Sign(t.Context(), s, repository); err != nil {
		t.Fatal(err)
	}
}

// verify fails the test unless sig is a signature of the message with the public key, as openssl sees it. Ed25519 signs messages, all others
// their SHA-256.
func verify(t *testing.T, public, sig string, message []byte) {
	t.Helper()
	if err := verification(t.Context(), t.TempDir(), public, sig, message); err != nil {
		t.Error(err)
	}
}

func verification(ctx context.Context, dir, public, sig string, message []byte) error {
	raw, err := base64.StdEncoding.DecodeString(sig)
	if err != nil {
		return err
	}
	sigFile, messageFile := filepath.Join(dir, "sig"), filepath.Join(dir, "message")
	if err := errors.Join(os.WriteFile(sigFile, raw, 0o600), os.WriteFile(messageFile, message, 0o600)); err != nil {
		return err
	}
	args := []string{"dgst", "-sha256", "-verify", public, "-signature", sigFile, messageFile}
	kind, err := exec.CommandContext(ctx, "openssl", "pkey", "-pubin", "-in", public, "-noout", "-text").Output()
	if err != nil {
		return err
	}
	if strings.HasPrefix(string(kind), "ED25519") {
		args = []string{"pkeyutl", "-verify", "-rawin", "-pubin", "-inkey", public, "-sigfile", sigFile, "-in", messageFile}
	}
	if out, err := exec.CommandContext(ctx, "openssl", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("openssl %s: %w: %s", args[0], err, out)
	}
	return nil
}

// TestOpensslVerifiesSignedFiles signs with keys of each kind and form.
func TestOpensslVerifiesSignedFiles(t *testing.T) {
	rsaKey := newKey(t, "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048")
	traditional := filepath.Join(t.TempDir(), "rsa.pem")
	openssl(t, "pkey", "-in", rsaKey, "-traditional", "-out", traditional)
	encrypted := filepath.Join(t.TempDir(), "encrypted.pem")
	openssl(t, "pkcs8", "-topk8", "-in", newKey(t), "-passout", "pass:secret", "-out", encrypted)
	secret := func() ([]byte, error) { return []byte("secret"), nil }
	cosign, oldCosign, cosignPublic := cosignKey(t)
	publicOf := map[string][]byte{cosign: cosignPublic, oldCosign: cosignPublic}
	for name, key := range map[string]string{
		"EC": newKey(t), "Ed25519": newKey(t, "-algorithm", "ED25519"), "RSA": rsaKey, "RSA as PKCS1": traditional,
		"EC encrypted": encrypted, "of cosign": cosign, "of cosign 1": oldCosign,
	} {
		t.Run(name, func(t *testing.T) {
			dir := smallRelease(t)
			before := names(t, dir)
			sign(t, dir, key, secret)
			public := filepath.Join(dir, publish.PublicKeyFile)
			want, ok := publicOf[key]
			if !ok {
				want = openssl(t, "pkey", "-in", key, "-pubout", "-passin", "pass:secret")
			}
			if got := read(t, public); !bytes.Equal(got, want) {
				t.Errorf("public key %s, want %s", got, want)
			}
			for _, file := range before {
				verify(t, public, string(read(t, dir, file+".sig")), read(t, dir, file))
			}
			if err := verification(t.Context(), t.TempDir(), public, string(read(t, dir, release.Sums+".sig")), []byte("other")); err == nil {
				t.Error("the signature is good for another text")
			}
		})
	}
}

// cosignKey makes a key as cosign does, with the password secret, in the form of today and in that of cosign 1, whose first line differs.
func cosignKey(t *testing.T) (path, old string, public []byte) {
	t.Helper()
	private, public, err := cryptoutils.GeneratePEMEncodedECDSAKeyPair(elliptic.P256(), func(bool) ([]byte, error) { return []byte("secret"), nil })
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	path, old = filepath.Join(dir, "cosign.key"), filepath.Join(dir, "old.key")
	write(t, path, string(private))
	write(t, old, strings.ReplaceAll(string(private), "ENCRYPTED SIGSTORE", "ENCRYPTED COSIGN"))
	return path, old, public
}

// TestSignedAgain: a release can be signed with another key, and nothing of the first remains.
func TestSignedAgain(t *testing.T) {
	dir := smallRelease(t)
	sign(t, dir, newKey(t), noPassword)
	first := names(t, dir)
	key := newKey(t)
	sign(t, dir, key, noPassword)
	if second := names(t, dir); !slices.Equal(first, second) {
		t.Errorf("files %q, then %q", first, second)
	}
	public := filepath.Join(t.TempDir(), "public")
	write(t, public, string(openssl(t, "pkey", "-in", key, "-pubout")))
	verify(t, public, string(read(t, dir, release.Sums+".sig")), read(t, dir, release.Sums))
	wantSigned(t, dir, release.ImageFile(version), repository, public)
}

// TestSignaturesOfImageHaveTheFormOfCosign reads the layouts as JSON, without the libraries that write them.
func TestSignaturesOfImageHaveTheFormOfCosign(t *testing.T) {
	dir := smallRelease(t)
	sign(t, dir, newKey(t), noPassword)
	public := filepath.Join(dir, publish.PublicKeyFile)
	if n := wantSigned(t, dir, release.ImageFile(version), repository, public); n != 3 {
		t.Errorf("%d signatures of the image, want one of the index and one of each architecture", n)
	}
	if n := wantSigned(t, dir, release.ManifestsFile(version), repository+"-manifests", public); n != 1 {
		t.Errorf("%d signatures of the manifests, want 1", n)
	}
}

// blobs reads a layout in a tar file: its index, and its blobs by digest.
func blobs(t *testing.T, path string) (index descriptor, all map[string][]byte) {
	t.Helper()
	all = map[string][]byte{}
	for r := tar.NewReader(bytes.NewReader(read(t, path))); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		if digest, ok := strings.CutPrefix(h.Name, "blobs/sha256/"); ok {
			all["sha256:"+digest] = content
		}
		if h.Name == "index.json" {
			decode(t, content, &index)
		}
	}
	return index, all
}

// descriptor has the parts of indexes, manifests and descriptors that matter here.
type descriptor struct {
	MediaType, Digest string
	Config            *descriptor
	Manifests, Layers []descriptor
	Annotations       map[string]string
}

func decode(t *testing.T, text []byte, to any) {
	t.Helper()
	if err := json.Unmarshal(text, to); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
}

// wantSigned wants that every manifest of a layout is signed and the outermost has its provenance. It returns the number of signatures.
func wantSigned(t *testing.T, dir, file, repository, public string) (signatures int) {
	t.Helper()
	top, content := blobs(t, filepath.Join(dir, file))
	want := map[string]bool{top.Manifests[0].Digest: true}
	var inner descriptor
	decode(t, content[top.Manifests[0].Digest], &inner)
	for _, m := range inner.Manifests {
		want[m.Digest] = true
	}
	index, all := blobs(t, filepath.Join(dir, strings.TrimSuffix(file, ".tar")+"_signatures.tar"))
	tags := map[string]bool{}
	for _, m := range index.Manifests {
		tag := m.Annotations["org.opencontainers.image.ref.name"]
		tags[tag] = true
		var manifest descriptor
		decode(t, all[m.Digest], &manifest)
		if len(manifest.Layers) != 1 || manifest.MediaType != "application/vnd.oci.image.manifest.v1+json" ||
			manifest.Config.MediaType != "application/vnd.oci.image.config.v1+json" {
			t.Fatalf("%s: manifest %s", tag, all[m.Digest])
		}
		layer := manifest.Layers[0]
		text := all[layer.Digest]
		if kind := tag[strings.LastIndex(tag, "."):]; kind == ".att" {
			if layer.MediaType != "application/vnd.dsse.envelope.v1+json" || layer.Annotations["predicateType"] != "https://slsa.dev/provenance/v1" {
				t.Errorf("%s: layer %+v", tag, layer)
			}
			wantEnvelope(t, text, public)
			continue
		}
		signatures++
		if layer.MediaType != "application/vnd.dev.cosign.simplesigning.v1+json" {
			t.Errorf("%s: layer %+v", tag, layer)
		}
		var payload struct {
			Critical struct {
				Identity map[string]string
				Image    map[string]string
				Type     string
			}
		}
		decode(t, text, &payload)
		digest := "sha256:" + strings.TrimSuffix(strings.TrimPrefix(tag, "sha256-"), ".sig")
		if c := payload.Critical; c.Type != "cosign container image signature" || c.Image["docker-manifest-digest"] != digest || c.Identity["docker-reference"] != repository {
			t.Errorf("%s: %s", tag, text)
		}
		verify(t, public, layer.Annotations["dev.cosignproject.cosign/signature"], text)
	}
	for digest := range want {
		if tag := strings.Replace(digest, ":", "-", 1) + ".sig"; !tags[tag] {
			t.Errorf("no tag %s among %v", tag, tags)
		}
	}
	if tag := strings.Replace(top.Manifests[0].Digest, ":", "-", 1) + ".att"; !tags[tag] {
		t.Errorf("no tag %s among %v", tag, tags)
	}
	return signatures
}

// wantEnvelope wants the statement in a DSSE envelope.
func wantEnvelope(t *testing.T, text []byte, public string) {
	t.Helper()
	var envelope struct {
		PayloadType string
		Payload     []byte
		Signatures  []struct{ Sig string }
	}
	decode(t, text, &envelope)
	if envelope.PayloadType != "application/vnd.in-toto+json" || len(envelope.Signatures) != 1 {
		t.Fatalf("envelope %s", text)
	}
	var want bytes.Buffer
	if err := json.Compact(&want, []byte(statement)); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(envelope.Payload, want.Bytes()) {
		t.Errorf("payload %s, want %s", envelope.Payload, &want)
	}
	// What is signed, as DSSE defines it.
	signed := fmt.Sprintf("DSSEv1 %d %s %d %s", len(envelope.PayloadType), envelope.PayloadType, len(envelope.Payload), envelope.Payload)
	verify(t, public, envelope.Signatures[0].Sig, []byte(signed))
}

func TestProvenanceIsSignedBesideTheFiles(t *testing.T) {
	dir := smallRelease(t)
	sign(t, dir, newKey(t), noPassword)
	text := read(t, dir, "routesrv_"+version+"_provenance.intoto.jsonl")
	if bytes.Count(text, []byte("\n")) != 1 || !bytes.HasSuffix(text, []byte("\n")) {
		t.Errorf("want one line: %q", text)
	}
	wantEnvelope(t, text, filepath.Join(dir, publish.PublicKeyFile))
}

// TestKeyOfAServiceIsUsedThroughAProgram has openssl as the service.
func TestKeyOfAServiceIsUsedThroughAProgram(t *testing.T) {
	key, bin := newKey(t), t.TempDir()
	script := `#!/bin/sh
case "$2" in
*'"keyResourceID":"team/release"'*'"methodName":"publicKey"'*)
	printf '{"publicKey":{"publicKeyPEM":"%s"}}' "$(openssl pkey -in KEY -pubout | base64 -w0)" ;;
*'"keyResourceID":"team/release"'*'"methodName":"signMessage"'*)
	printf '{"signMessage":{"signature":"%s"}}' "$(openssl dgst -sha256 -sign KEY | base64 -w0)" ;;
*) printf '{"errorMessage":"no such key"}' ;;
esac
`
	if err := os.WriteFile(filepath.Join(bin, "sigstore-kms-openssl"), []byte(strings.ReplaceAll(script, "KEY", key)), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+string(filepath.ListSeparator)+os.Getenv("PATH"))
	dir := smallRelease(t)
	sign(t, dir, "openssl://team/release", noPassword)
	public := filepath.Join(t.TempDir(), "public")
	write(t, public, string(openssl(t, "pkey", "-in", key, "-pubout")))
	verify(t, public, string(read(t, dir, release.Sums+".sig")), read(t, dir, release.Sums))
	wantSigned(t, dir, release.ImageFile(version), repository, public)

	s, err := publish.Load(t.Context(), "openssl://team/other", noPassword)
	if err != nil {
		t.Fatal(err)
	}
	r, err := publish.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Sign(t.Context(), s, repository); err == nil || !strings.Contains(err.Error(), "no such key") {
		t.Errorf("error %v", err)
	}
}

func TestKeyThatCannotBeUsed(t *testing.T) {
	broken := filepath.Join(t.TempDir(), "broken.pem")
	write(t, broken, "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n")
	encrypted := filepath.Join(t.TempDir(), "encrypted.pem")
	openssl(t, "pkcs8", "-topk8", "-in", newKey(t), "-passout", "pass:secret", "-out", encrypted)
	for key, want := range map[string]string{
		"":                  "no such file",
		"/nowhere/key.pem":  "no such file",
		broken:              broken,
		encrypted:           "no password",
		"awskms:///alias/x": "no program sigstore-kms-awskms in the PATH",
	} {
		if _, err := publish.Load(t.Context(), key, noPassword); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("key %q: error %v, want %q in it", key, err, want)
		}
	}
	r, err := publish.Open(smallRelease(t))
	if err != nil {
		t.Fatal(err)
	}
	s, err := publish.Load(t.Context(), newKey(t), noPassword)
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{"", "routesrv:v1", "Registry/UPPER", "routesrv@sha256:00"} {
		if err := r.Sign(t.Context(), s, bad); err == nil {
			t.Errorf("repository %q: no error", bad)
		}
	}
}
