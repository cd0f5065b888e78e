package image

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
)

// Unpack writes the file system of an image to an existing folder. It sets permissions, except that folders stay writable for the
// caller, but not owners. It refuses anything but files and folders, and writes nothing outside the folder.
func Unpack(img v1.Image, dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	content := mutate.Extract(img)
	defer content.Close()
	for r := tar.NewReader(content); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("layer: %w", err)
		}
		if err := unpackOne(root, h, r); err != nil {
			return fmt.Errorf("layer: %s: %w", h.Name, err)
		}
	}
}

func unpackOne(root *os.Root, h *tar.Header, content io.Reader) error {
	name := strings.TrimPrefix(path.Clean("/"+h.Name), "/")
	if h.Typeflag == tar.TypeDir {
		if name == "" {
			return nil
		}
		return root.MkdirAll(name, 0o755)
	}
	if h.Typeflag != tar.TypeReg {
		return fmt.Errorf("type %q: want files and folders only", h.Typeflag)
	}
	if mode := h.FileInfo().Mode(); mode&(fs.ModeSetuid|fs.ModeSetgid|fs.ModeSticky) != 0 {
		return fmt.Errorf("mode %v: want permissions only", mode)
	}
	if err := root.MkdirAll(path.Dir(name), 0o755); err != nil {
		return err
	}
	f, err := root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, content)
	return errors.Join(err, f.Chmod(h.FileInfo().Mode().Perm()), f.Close())
}
