//go:build linux

package kubelet

import (
	"os"
	"path/filepath"
)

// Image is what a container image has that matters here.
type Image struct {
	Files      map[string]string // paths in the image to programs on this machine, which are copied
	Entrypoint []string
	User       string // "UID:GID", or empty for root
}

// unpack writes the files of the image into a folder.
func (i *Image) unpack(root string) error {
	for name, from := range i.Files {
		to := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		program, err := os.ReadFile(from)
		if err != nil {
			return err
		}
		if err := os.WriteFile(to, program, 0o555); err != nil {
			return err
		}
	}
	return nil
}

// Routesrv returns the image that the Dockerfile of this repository makes, with the programs of a folder. A test
// holds the two together.
func Routesrv(dir string) Image {
	i := Image{Files: make(map[string]string), Entrypoint: []string{"/usr/bin/routesrv"}, User: "65532:65532"}
	for _, name := range []string{"routesrv", "dataplane-client"} {
		i.Files["/usr/bin/"+name] = filepath.Join(dir, name)
	}
	return i
}
