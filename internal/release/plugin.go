package release

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"
)

// Plugin is the program that kubectl runs for "kubectl routesrv".
const Plugin = "kubectl-routesrv"

// pluginSystems are the operating systems that the plugin supports, as GOOS values.
var pluginSystems = [...]string{"darwin", "linux", "windows"}

// writePlugin writes an archive of the plugin for each operating system and architecture, a bill of materials for
// each, and the krew manifest that installs it. It builds the programs in the folder work and records their contents
// in made.
func writePlugin(ctx context.Context, c Config, work, out string, made *ingredients) error {
	m := newKrewManifest(c)
	for _, p := range c.pluginPlatforms() {
		name := fmt.Sprintf("%s_%s_%s_%s", Plugin, c.Version, p.os, p.arch)
		dir := filepath.Join(work, name)
		if err := compile(ctx, c, p, []string{Plugin}, dir); err != nil {
			return err
		}
		if err := made.add(dir, p, []string{Plugin}); err != nil {
			return err
		}
		file := name + ".tar.gz"
		if err := writeArchive(filepath.Join(out, file), "", dir, c.Time); err != nil {
			return err
		}
		if err := writeSBOM(filepath.Join(out, name+".cdx.json"), c, p, []string{Plugin}, dir); err != nil {
			return err
		}
		sum, err := fileSum(filepath.Join(out, file))
		if err != nil {
			return err
		}
		m.Spec.Platforms = append(m.Spec.Platforms, krewPlatform{
			Selector: krewSelector{map[string]string{"os": p.os, "arch": p.arch}}, URI: c.download() + "/" + file, SHA256: sum, Bin: p.file(Plugin),
		})
	}
	return create(filepath.Join(out, fmt.Sprintf("routesrv_%s_krew.yaml", c.Version)), func(w io.Writer) error {
		text, err := yaml.Marshal(m)
		if err != nil {
			return fmt.Errorf("manifest for krew: %w", err)
		}
		_, err = w.Write(text)
		return err
	})
}

// pluginPlatforms returns the platforms that the plugin is built for.
func (c Config) pluginPlatforms() []platform {
	var all []platform
	for _, name := range c.Plugins {
		goos, arch, _ := strings.Cut(name, "/")
		all = append(all, platform{goos, arch})
	}
	if len(all) > 0 {
		return all
	}
	for _, goos := range pluginSystems {
		for _, arch := range c.Archs {
			all = append(all, platform{goos, arch})
		}
	}
	return all
}

// pluginNames returns these platforms as OS/ARCH.
func (c Config) pluginNames() []string {
	var all []string
	for _, p := range c.pluginPlatforms() {
		all = append(all, p.os+"/"+p.arch)
	}
	return all
}

// download returns the URL of the folder with the files of the release.
func (c Config) download() string {
	if c.Download != "" {
		return strings.TrimSuffix(c.Download, "/")
	}
	return "https://" + ourModule + "/releases/download/" + c.Version
}

// The manifest of a plugin, as krew requires it.
type (
	krewManifest struct {
		APIVersion string            `json:"apiVersion"`
		Kind       string            `json:"kind"`
		Metadata   map[string]string `json:"metadata"`
		Spec       krewSpec          `json:"spec"`
	}
	krewSpec struct {
		Version          string         `json:"version"`
		Homepage         string         `json:"homepage"`
		ShortDescription string         `json:"shortDescription"` // up to 50 characters
		Description      string         `json:"description"`
		Caveats          string         `json:"caveats"`
		Platforms        []krewPlatform `json:"platforms"`
	}
	krewPlatform struct {
		Selector krewSelector `json:"selector"`
		URI      string       `json:"uri"`
		SHA256   string       `json:"sha256"`
		Bin      string       `json:"bin"`
	}
	krewSelector struct {
		MatchLabels map[string]string `json:"matchLabels"`
	}
)

func newKrewManifest(c Config) *krewManifest {
	return &krewManifest{
		APIVersion: "krew.googlecontainertools.github.com/v1alpha2", Kind: "Plugin", Metadata: map[string]string{"name": "routesrv"},
		Spec: krewSpec{
			Version: c.Version, Homepage: "https://" + ourModule, ShortDescription: "Ask the route servers of ingress fleets",
			Description: "Says what the route servers of one or many clusters serve, which proxy holds which table, what is\n" +
				"wrong with Ingresses and RouteGroups, and what the guard holds back, and accepts that.\n",
			Caveats: "You need the rights to list pods and to port-forward to them in the namespace of the route server.\n",
		},
	}
}
